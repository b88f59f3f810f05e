#pragma once

#include <cstdint>
#include <stop_token>
#include <string>

#include "comm/base/json.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace quire {

/// Answers /tokenize and /detokenize: makes the answer's text from the body. The cost grows with the body. The class is
/// thread-safe. Methods throw ApiError or Error for bad requests, and Stopped when `stop` asks for it.
class TextPages {
 public:
  /// The tokenizer must outlive this object.
  TextPages(const Tokenizer& tokenizer, int vocab_size, int max_model_len)
      : tokenizer_(tokenizer), vocab_size_(vocab_size), max_model_len_(max_model_len) {}

  /// Answers /tokenize; `json` is the parsed body.
  std::string Tokenize(const Json& json, const std::stop_token& stop) const;
  std::string Detokenize(const std::string& body, const std::stop_token& stop) const;

  /// Returns the most bytes that a body of `body_bytes` bytes, the work on it and its answer take together.
  int64_t TokenizeBytes(size_t body_bytes) const;
  int64_t DetokenizeBytes(size_t body_bytes) const;

 private:
  const Tokenizer& tokenizer_;
  int vocab_size_, max_model_len_;
};

}  // namespace quire

#pragma once

#include <cstdint>
#include <stop_token>
#include <string>

#include "coordinator/api/openai/call_preparer.h"

namespace quire {

/// Answers endpoints that show the prompt of a chat request without generating. The cost grows with the body and with
/// the template's output. The class is thread-safe. Methods throw ApiError or Error for bad requests, and Stopped when
/// `stop` asks for it.
class ChatPages {
 public:
  /// The preparer must outlive this object.
  ChatPages(const CallPreparer& preparer, int max_model_len) : preparer_(preparer), max_model_len_(max_model_len) {}

  /// Answers /v1/chat/completions/render: the prompt's text and tokens. The text spells control tokens out.
  std::string Render(const std::string& body, const std::stop_token& stop) const;
  /// Answers /tokenize for a body with messages.
  std::string Tokenize(const RequestBody& body, const std::stop_token& stop) const;

  /// Answers /v1/messages/count_tokens.
  std::string CountTokens(const std::string& body, const std::stop_token& stop) const;

  /// Returns the bytes that a body of `body_bytes` bytes, the work on it and its answer take together, if the template
  /// does not enlarge the text.
  int64_t Bytes(size_t body_bytes) const;

 private:
  const CallPreparer& preparer_;
  int max_model_len_;
};

}  // namespace quire

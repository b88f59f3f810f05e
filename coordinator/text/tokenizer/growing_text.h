#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "comm/base/error.h"

namespace quire {

[[noreturn]] inline void FailTooLong() { Fail("tokenizer: the text grows too long when it is normalised"); }

/// A text that grows up to a maximum length. Exceeding the maximum length throws Error.
class GrowingText {
 public:
  explicit GrowingText(size_t max_bytes) : max_bytes_(max_bytes) {}

  void Append(std::string_view bytes) {
    if (bytes.size() > max_bytes_ - text_.size()) FailTooLong();
    text_ += bytes;
  }
  bool EndsWith(std::string_view bytes) const { return text_.ends_with(bytes); }
  void RemoveLast(size_t bytes) { text_.resize(text_.size() - bytes); }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
  size_t max_bytes_;
};

}  // namespace quire

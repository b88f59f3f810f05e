#pragma once

#include <cstddef>
#include <string>
#include <utility>

namespace quire {

/// Takes an answer's words out of the marks around them, such as <response> and </response>, and drops the whitespace
/// next to either mark.
class ResponseWords {
 public:
  /// close: the mark after the words. opened: there was a mark before the words. Without it, leading whitespace belongs
  /// to the words.
  ResponseWords(std::string close, bool opened) : close_(std::move(close)), worded_(!opened) {}

  /// Takes words from the front of `waiting` and returns them. at_end: no more text will come. Leaves text at the end
  /// of `waiting` that may be the beginning of the closing mark. Removes the closing mark once it is complete.
  std::string Take(std::string& waiting, bool at_end);
  /// True once the closing mark has come.
  bool is_over() const { return is_over_; }
  /// Returns the whitespace after the words, when no closing mark has come.
  std::string TakeBlanks() { return std::exchange(blanks_, {}); }
  size_t held_bytes() const { return blanks_.capacity(); }

 private:
  std::string close_, blanks_;
  bool worded_ = false;  // true once words have come
  bool is_over_ = false;
};

}  // namespace quire

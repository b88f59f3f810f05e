#pragma once

#include <cstddef>
#include <string>
#include <utility>

namespace quire {

/// Takes an answer's words out of the marks around them, such as <response> and </response>, without the whitespace
/// next to either mark.
class ResponseWords {
 public:
  /// close: the mark after the words. opened: true if a mark stood before the words; otherwise they keep their first
  /// whitespace.
  ResponseWords(std::string close, bool opened) : close_(std::move(close)), worded_(!opened) {}

  /// Takes words from the front of `waiting`, except an end that may begin the closing mark, and returns them. Takes
  /// the closing mark, too.
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

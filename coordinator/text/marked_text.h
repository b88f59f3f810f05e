#pragma once

#include <string>
#include <string_view>

namespace quire {

/// Text that records which of its bytes came from a user. Such bytes never become control tokens, whatever they spell.
struct MarkedText {
  std::string text;
  std::string marks;  // one byte per byte of text: kTrusted or kFromUser

  static constexpr char kTrusted = 't';
  static constexpr char kFromUser = 'u';

  MarkedText() = default;
  MarkedText(std::string_view t, char mark) : text(t), marks(t.size(), mark) {}
  MarkedText(std::string t, std::string m) : text(std::move(t)), marks(std::move(m)) {}

  MarkedText& operator+=(const MarkedText& other) {
    text += other.text;
    marks += other.marks;
    return *this;
  }
  MarkedText Substring(size_t begin, size_t count = std::string::npos) const {
    return {text.substr(begin, count), marks.substr(begin, count)};
  }
  bool IsTrusted(size_t begin, size_t count) const {
    return std::string_view(marks).substr(begin, count).find(kFromUser) == std::string_view::npos;
  }
};

}  // namespace quire

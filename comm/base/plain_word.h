#pragma once

#include <string>

namespace quire {

/// True when the text has ASCII letters, digits and characters of `marks` only. Such a text is safe as a word in a
/// remote shell's command.
inline bool IsMadeOf(const std::string& text, const std::string& marks) {
  constexpr char kLetters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  return text.find_first_not_of(kLetters + marks) == std::string::npos;
}

}  // namespace quire

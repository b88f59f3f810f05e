#pragma once

#include <string>

namespace quire {

/// Returns true when the text has only ASCII letters, digits and characters of `marks`. If a shell gives no meaning to
/// the marks, such a text is safe as a word in a remote shell's command.
inline bool IsMadeOf(const std::string& text, const std::string& marks) {
  constexpr char kLetters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  return text.find_first_not_of(kLetters + marks) == std::string::npos;
}

}  // namespace quire

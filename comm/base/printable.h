#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "comm/base/utf8.h"

namespace quire {

/// Escapes control characters as \n, \t, \r, \x1b or \u0080, and bytes that are not UTF-8 as \xff; leaves all other
/// characters as they are. So text from outside can neither begin a log line of its own nor control the terminal,
/// whatever encoding the terminal has, and a log stays UTF-8.
inline std::string WithoutControls(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    const size_t length = LengthOfCharacter(text.substr(i, 4));
    // U+0080 to U+009F are control characters, too. UTF-8 writes them as 0xC2 and one byte of 0x80 to 0x9f.
    const bool c1 = length == 2 && c == 0xc2 && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (c == '\n')
      plain += "\\n";
    else if (c == '\r')
      plain += "\\r";
    else if (c == '\t')
      plain += "\\t";
    else if (c < 0x20 || c == 0x7f || length == 0)
      plain += fmt::format("\\x{:02x}", c);
    else if (c1)
      plain += fmt::format("\\u{:04x}", static_cast<unsigned char>(text[i + 1]));
    else
      plain += text.substr(i, length);
    i += std::max<size_t>(length, 1);
  }
  return plain;
}

/// Escapes control characters in a text of several lines, as WithoutControls does, but leaves line ends and tabs as
/// they are.
inline std::string LinesWithoutControls(std::string_view text) {
  std::string shown;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of("\n\t", at), text.size());
    shown += WithoutControls(text.substr(at, end - at));
    if (end < text.size()) shown += text[end];
    at = end + 1;
  }
  return shown;
}

}  // namespace quire

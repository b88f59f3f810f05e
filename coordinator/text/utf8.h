#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace quire {

/// One character, or one invalid sequence, at the beginning of some bytes.
struct Utf8Step {
  char32_t character = 0;
  size_t length = 0;  // bytes to advance: the character, or the longest valid prefix of one (at least 1)
  bool valid = false;
  bool incomplete = false;  // the bytes end inside a possible character
};

/// Reads the first character of `bytes` (not empty). Invalid input advances by "maximal subparts", as the Unicode
/// standard recommends, so that replacing each with U+FFFD equals other decoders' output.
Utf8Step NextUtf8(std::string_view bytes);

void AppendUtf8(char32_t character, std::string& out);

bool IsValidUtf8(std::string_view bytes);

/// Returns the bytes with U+FFFD for invalid sequences.
std::string ValidUtf8(std::string_view bytes);

/// Returns the number of characters of valid UTF-8.
size_t NumCharacters(std::string_view text);

}  // namespace quire

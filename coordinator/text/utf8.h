#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace quire {

/// One character, or one invalid sequence, at the beginning of a text.
struct Utf8Step {
  char32_t character = 0;
  size_t length = 0;  // bytes to advance: the character, or the longest valid prefix of one (at least 1)
  bool valid = false;
  bool incomplete = false;  // the bytes end inside a possible character
};

/// Reads the first character of `bytes` (not empty). Skips "maximal subparts" of invalid input, as the Unicode standard
/// recommends, so that replacing each subpart with U+FFFD gives the same text as other decoders.
Utf8Step NextUtf8(std::string_view bytes);

void AppendUtf8(char32_t character, std::string& out);

bool IsValidUtf8(std::string_view bytes);

/// Returns the text with each invalid sequence replaced by U+FFFD.
std::string ValidUtf8(std::string_view bytes);

/// Returns the number of characters in a text of valid UTF-8.
size_t NumCharacters(std::string_view text);

}  // namespace quire

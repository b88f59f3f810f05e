#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace quire {

/// One character, or one piece that is none, at the beginning of some bytes.
struct Utf8Step {
  char32_t character = 0;
  size_t length = 0;  // bytes to move on by: of the character, or of the longest prefix of one (at least 1)
  bool valid = false;
  bool incomplete = false;  // the bytes end inside what may yet become a character
};

/// Reads what `bytes` (not empty) begin with. Invalid input advances by "maximal subparts", the Unicode standard's
/// recommendation, so that replacing each with U+FFFD equals what other decoders do.
Utf8Step NextUtf8(std::string_view bytes);

void AppendUtf8(char32_t character, std::string& out);

bool IsValidUtf8(std::string_view bytes);

/// With U+FFFD for what is not valid.
std::string ValidUtf8(std::string_view bytes);

/// Characters of a text that is valid UTF-8.
size_t NumCharacters(std::string_view text);

}  // namespace quire

#pragma once

#include <cstddef>
#include <string_view>

namespace quire {

/// False when the continuation byte `next` must not follow the lead byte `lead` in UTF-8, because the character would
/// be an overlong encoding, a surrogate, or a code point beyond Unicode.
constexpr bool MayFollow(unsigned char lead, unsigned char next) {
  switch (lead) {
    case 0xe0:
      return next >= 0xa0;
    case 0xed:
      return next <= 0x9f;
    case 0xf0:
      return next >= 0x90;
    case 0xf4:
      return next <= 0x8f;
    default:
      return true;
  }
}

/// Returns the number of bytes of the UTF-8 character at the beginning of a text; 0 if the text begins with no whole
/// character.
constexpr size_t LengthOfCharacter(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(i < text.size() ? text[i] : 0); };
  const unsigned char lead = byte(0);
  const size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  return length > 1 && !MayFollow(lead, byte(1)) ? 0 : length;
}

}  // namespace quire

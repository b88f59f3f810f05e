#include "coordinator/text/utf8.h"

#include <algorithm>

namespace quire {

namespace {

/// The properties of a lead byte: the length of its sequence, and the range of the second byte; length 0: the byte is
/// no lead byte.
struct Lead {
  size_t length;
  unsigned char low, high;
};

Lead LeadOf(unsigned char byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xc2) return {0, 0, 0};
  if (byte < 0xe0) return {2, 0x80, 0xbf};
  if (byte == 0xe0) return {3, 0xa0, 0xbf};
  if (byte == 0xed) return {3, 0x80, 0x9f};  // excludes surrogates
  if (byte < 0xf0) return {3, 0x80, 0xbf};
  if (byte == 0xf0) return {4, 0x90, 0xbf};
  if (byte < 0xf4) return {4, 0x80, 0xbf};
  if (byte == 0xf4) return {4, 0x80, 0x8f};
  return {0, 0, 0};
}

}  // namespace

Utf8Step NextUtf8(std::string_view bytes) {
  const auto first = static_cast<unsigned char>(bytes[0]);
  const Lead lead = LeadOf(first);
  if (lead.length == 0) return {0, 1, false, false};
  if (lead.length == 1) return {first, 1, true, false};
  auto character = static_cast<char32_t>(first & (0xff >> (lead.length + 1)));
  for (size_t i = 1; i < lead.length; ++i) {
    if (i == bytes.size()) return {0, i, false, true};
    const auto byte = static_cast<unsigned char>(bytes[i]);
    const bool continues = i == 1 ? byte >= lead.low && byte <= lead.high : (byte & 0xc0) == 0x80;
    if (!continues) return {0, i, false, false};
    character = character << 6 | (byte & 0x3f);
  }
  return {character, lead.length, true, false};
}

void AppendUtf8(char32_t c, std::string& out) {
  const auto put = [&](char32_t byte) { out += static_cast<char>(byte); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xc0 | c >> 6), put(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    put(0xe0 | c >> 12), put(0x80 | (c >> 6 & 0x3f)), put(0x80 | (c & 0x3f));
  } else {
    put(0xf0 | c >> 18), put(0x80 | (c >> 12 & 0x3f)), put(0x80 | (c >> 6 & 0x3f)), put(0x80 | (c & 0x3f));
  }
}

bool IsValidUtf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const Utf8Step step = NextUtf8(bytes);
    if (!step.valid) return false;
    bytes.remove_prefix(step.length);
  }
  return true;
}

std::string ValidUtf8(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const Utf8Step step = NextUtf8(bytes);
    text += step.valid ? bytes.substr(0, step.length) : "\xef\xbf\xbd";
    bytes.remove_prefix(step.length);
  }
  return text;
}

size_t NumCharacters(std::string_view text) {
  const auto begins_one = [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; };
  return static_cast<size_t>(std::ranges::count_if(text, begins_one));
}

}  // namespace quire

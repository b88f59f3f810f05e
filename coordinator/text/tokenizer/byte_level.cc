#include "coordinator/text/tokenizer/byte_level.h"

#include <array>

#include "coordinator/text/utf8.h"

namespace quire {

namespace {

bool IsPrintable(int byte) { return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae; }

std::array<char32_t, 256> MakeAlphabet() {
  std::array<char32_t, 256> alphabet{};
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    alphabet[static_cast<size_t>(byte)] = IsPrintable(byte) ? static_cast<char32_t>(byte) : next++;
  }
  return alphabet;
}

const std::array<char32_t, 256> kAlphabet = MakeAlphabet();

std::optional<char> ByteOf(char32_t character) {
  if (character < 0x100) {
    if (!IsPrintable(static_cast<int>(character))) return std::nullopt;
    return static_cast<char>(character);
  }
  for (size_t byte = 0; byte < 256; ++byte) {
    if (kAlphabet[byte] == character) return static_cast<char>(byte);
  }
  return std::nullopt;
}

}  // namespace

std::string BytesToAlphabet(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) AppendUtf8(kAlphabet[static_cast<unsigned char>(byte)], text);
  return text;
}

std::optional<std::string> AlphabetToBytes(std::string_view text) {
  std::string bytes;
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = NextUtf8(text.substr(at));
    const auto byte = step.valid ? ByteOf(step.character) : std::nullopt;
    if (!byte) return std::nullopt;
    bytes += *byte;
    at += step.length;
  }
  return bytes;
}

}  // namespace quire

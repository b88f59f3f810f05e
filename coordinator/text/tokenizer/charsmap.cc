#include "coordinator/text/tokenizer/charsmap.h"

#include <algorithm>

#include "comm/base/error.h"
#include "coordinator/text/utf8.h"

namespace quire {

namespace {

constexpr size_t kMaxEntries = 32;      // SentencePiece's limit on nested matches
constexpr size_t kMaxEntryBytes = 256;  // a broken array could otherwise loop as long as the text continues

uint32_t ReadLittleEndian(std::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = 4; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

// Return the fields of a unit of the double array.
bool HasLeaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t LabelOf(uint32_t unit) { return unit & (uint32_t{1} << 31 | 0xff); }
uint32_t OffsetOf(uint32_t unit) { return unit >> 10 << ((unit & uint32_t{1} << 9) >> 6); }
uint32_t ValueOf(uint32_t unit) { return unit & ~(uint32_t{1} << 31); }

bool BeginsCharacter(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }

}  // namespace

Charsmap::Charsmap(std::string_view bytes) {
  if (bytes.empty()) return;
  const size_t array = bytes.size() < 4 ? 0 : ReadLittleEndian(bytes);
  if (array == 0 || array % 4 != 0 || array > bytes.size() - 4)
    Fail("the precompiled_charsmap of {} bytes says that its array has {}", bytes.size(), array);
  for (size_t at = 4; at < 4 + array; at += 4) units_.push_back(ReadLittleEndian(bytes.substr(at)));
  texts_ = bytes.substr(4 + array);
  if (!texts_.empty() && texts_.back() != '\0') Fail("the last text of the precompiled_charsmap does not end");
  if (!IsValidUtf8(texts_)) Fail("the texts of the precompiled_charsmap are not valid UTF-8");
}

template <class Found>
void Charsmap::Walk(std::string_view text, const Found& found) const {
  if (units_.empty()) return;
  size_t at = OffsetOf(units_[0]);
  for (size_t length = 1; length <= std::min(text.size(), kMaxEntryBytes); ++length) {
    const auto byte = static_cast<unsigned char>(text[length - 1]);
    at ^= byte;
    if (at >= units_.size() || LabelOf(units_[at]) != byte) return;
    const uint32_t unit = units_[at];
    at ^= OffsetOf(unit);
    if (!HasLeaf(unit)) continue;
    if (at >= units_.size()) return;
    const size_t value = ValueOf(units_[at]);
    // Ignores a match that ends inside a character, and a value that points outside the texts or into a character: the
    // result would not be valid text. Only a broken table has them.
    const bool whole = length == text.size() || BeginsCharacter(text[length]);
    if (!whole || value >= texts_.size() || !BeginsCharacter(texts_[value])) continue;
    if (!found(Match{length, std::string_view(&texts_[value])})) return;
  }
}

Charsmap::Match Charsmap::Longest(std::string_view text) const {
  Match longest;
  size_t seen = 0;
  Walk(text, [&](const Match& match) {
    longest = match;
    return ++seen < kMaxEntries;
  });
  return longest;
}

Charsmap::Match Charsmap::Shortest(std::string_view text) const {
  Match shortest;
  Walk(text.substr(0, text.find('\0')), [&](const Match& match) {
    shortest = match;
    return false;
  });
  return shortest;
}

}  // namespace quire

#include "coordinator/text/nfc.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "comm/base/error.h"
#include "coordinator/text/utf8.h"

namespace quire {

namespace {

constexpr auto kForm = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
constexpr utf8proc_ssize_t kMostParts = 8;  // of one character; Unicode's canonical decompositions have four at most

utf8proc_propval_t CombiningClass(utf8proc_int32_t character) {
  return utf8proc_get_property(character)->combining_class;
}

std::vector<utf8proc_int32_t> Decomposed(std::string_view text) {
  std::vector<utf8proc_int32_t> out;
  while (!text.empty()) {
    const Utf8Step step = NextUtf8(text);
    utf8proc_int32_t parts[kMostParts];
    const auto count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(step.character), parts, kMostParts, kForm, nullptr);
    if (count < 0 || count > kMostParts) Fail("tokenizer: the text cannot be normalised");
    out.insert(out.end(), parts, parts + count);
    text.remove_prefix(step.length);
  }
  return out;
}

/// Puts the marks between two base characters in the order of their classes. The library's own way of doing so takes
/// time that is quadratic in the number of marks, of which a hostile text has a million on one letter.
void OrderMarks(std::vector<utf8proc_int32_t>& characters) {
  for (auto begin = characters.begin(); begin != characters.end();) {
    if (CombiningClass(*begin) == 0) {
      ++begin;
      continue;
    }
    const auto end = std::find_if(begin, characters.end(), [](auto c) { return CombiningClass(c) == 0; });
    std::stable_sort(begin, end, [](auto a, auto b) { return CombiningClass(a) < CombiningClass(b); });
    begin = end;
  }
}

}  // namespace

std::string ToNfc(std::string_view text) {
  if (std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; })) return std::string(text);
  std::vector<utf8proc_int32_t> characters = Decomposed(text);
  OrderMarks(characters);
  const auto length =
      utf8proc_normalize_utf32(characters.data(), static_cast<utf8proc_ssize_t>(characters.size()), kForm);
  if (length < 0) Fail("tokenizer: the text cannot be normalised: {}", utf8proc_errmsg(length));
  std::string normal;
  for (utf8proc_ssize_t i = 0; i < length; ++i)
    AppendUtf8(static_cast<char32_t>(characters[static_cast<size_t>(i)]), normal);
  return normal;
}

}  // namespace quire

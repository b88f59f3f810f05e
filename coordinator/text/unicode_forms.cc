#include "coordinator/text/unicode_forms.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "comm/base/error.h"
#include "coordinator/text/newer_characters.h"
#include "coordinator/text/utf8.h"

namespace quire {

namespace {

constexpr utf8proc_ssize_t kMostParts = 32;  // parts of one character; Unicode's decompositions have at most 18

bool Composes(UnicodeForm form) { return form == UnicodeForm::kNfc || form == UnicodeForm::kNfkc; }

utf8proc_option_t OptionsOf(UnicodeForm form) {
  const bool compatible = form == UnicodeForm::kNfkc || form == UnicodeForm::kNfkd;
  return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | (compatible ? UTF8PROC_COMPAT : 0) |
                                        (Composes(form) ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE));
}

utf8proc_propval_t CombiningClass(utf8proc_int32_t character) {
  return utf8proc_get_property(character)->combining_class;
}

std::vector<utf8proc_int32_t> Decomposed(std::string_view text, utf8proc_option_t options) {
  std::vector<utf8proc_int32_t> out;
  while (!text.empty()) {
    const Utf8Step step = NextUtf8(text);
    utf8proc_int32_t parts[kMostParts];
    const auto count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(step.character), parts, kMostParts, options, nullptr);
    if (count < 0 || count > kMostParts) Fail("tokenizer: the text cannot be normalised");
    out.insert(out.end(), parts, parts + count);
    text.remove_prefix(step.length);
  }
  return out;
}

/// Sorts the marks between two base characters by their combining class. utf8proc's own method takes quadratic time,
/// and a hostile text may have a million marks on one letter.
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

/// Appends the normal form of a text to `out`. All characters of the text are in Unicode 9.0, or no form changes them.
void AppendForm(std::string_view text, UnicodeForm form, std::string& out) {
  if (text.empty()) return;
  const utf8proc_option_t options = OptionsOf(form);
  std::vector<utf8proc_int32_t> characters = Decomposed(text, options);
  OrderMarks(characters);
  auto length = static_cast<utf8proc_ssize_t>(characters.size());
  if (Composes(form)) length = utf8proc_normalize_utf32(characters.data(), length, options);
  if (length < 0) Fail("tokenizer: the text cannot be normalised: {}", utf8proc_errmsg(length));
  for (utf8proc_ssize_t i = 0; i < length; ++i)
    AppendUtf8(static_cast<char32_t>(characters[static_cast<size_t>(i)]), out);
}

}  // namespace

std::string ToForm(std::string_view text, UnicodeForm form) {
  if (std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; })) return std::string(text);
  std::string normal;
  size_t begin = 0;  // start of the text not yet in `normal`
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = NextUtf8(text.substr(at));
    if (IsNewerThanUnicode9(step.character)) {
      AppendForm(text.substr(begin, at - begin), form, normal);
      normal += text.substr(at, step.length);
      begin = at + step.length;
    }
    at += step.length;
  }
  AppendForm(text.substr(begin), form, normal);
  return normal;
}

}  // namespace quire

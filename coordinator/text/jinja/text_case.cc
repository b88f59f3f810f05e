// Case conversion of texts, and tests of their characters.
#include <algorithm>

#include "coordinator/text/characters.h"
#include "coordinator/text/jinja/text_functions.h"
#include "coordinator/text/utf8.h"

namespace quire::jinja {

namespace {

/// Converts every character to the case that `choose` returns for it. Each result has the mark of its character
/// (MarkedText::marks).
template <class Choose>
MarkedText InCases(const MarkedText& text, Budget& budget, const Choose& choose) {
  budget.Walk(text.text.size());
  budget.MakeText(text.text.size());
  MarkedText out;
  const std::string_view bytes = text.text;
  for (size_t at = 0; at < bytes.size();) {
    const Utf8Step step = NextUtf8(bytes.substr(at));
    if (step.valid) {
      AppendInCase(step.character, choose(step.character), out.text);
    } else {
      out.text += bytes.substr(at, step.length);
    }
    out.marks.resize(out.text.size(), text.marks[at]);
    at += step.length;
  }
  budget.CheckText(out.text.size());
  return out;
}

}  // namespace

MarkedText ToCase(const MarkedText& text, bool upper, Budget& budget) {
  return InCases(text, budget, [&](char32_t) { return upper ? LetterCase::kUpper : LetterCase::kLower; });
}

MarkedText SwapCase(const MarkedText& text, Budget& budget) {
  return InCases(text, budget, [](char32_t c) { return IsUpperCase(c) ? LetterCase::kLower : LetterCase::kUpper; });
}

MarkedText Capitalize(const MarkedText& text, Budget& budget) {
  bool first = true;
  return InCases(text, budget,
                 [&](char32_t) { return std::exchange(first, false) ? LetterCase::kTitle : LetterCase::kLower; });
}

MarkedText Title(const MarkedText& text, bool as_filter, Budget& budget) {
  constexpr std::u32string_view kOpeners = U"-({[<";
  bool inside = false;
  return InCases(text, budget, [&](char32_t c) {
    const bool begins = !inside;
    inside = as_filter ? kOpeners.find(c) == kOpeners.npos && !IsBlank(c) : IsLetter(c);
    if (!begins) return LetterCase::kLower;
    return as_filter ? LetterCase::kUpper : LetterCase::kTitle;
  });
}

bool AllCharacters(const MarkedText& text, bool (*is)(char32_t), Budget& budget) {
  budget.Walk(text.text.size());
  std::string_view rest = text.text;
  while (!rest.empty()) {
    const Utf8Step step = NextUtf8(rest);
    if (!step.valid || !is(step.character)) return false;
    rest.remove_prefix(step.length);
  }
  return !text.text.empty();
}

bool IsCased(const MarkedText& text, bool upper, Budget& budget) {
  budget.Walk(text.text.size());
  bool any = false;
  std::string_view rest = text.text;
  while (!rest.empty()) {
    const Utf8Step step = NextUtf8(rest);
    rest.remove_prefix(step.length);
    if (!step.valid) continue;
    if (upper ? IsLowerCase(step.character) : IsUpperCase(step.character)) return false;
    any |= upper ? IsUpperCase(step.character) : IsLowerCase(step.character);
  }
  return any;
}

}  // namespace quire::jinja

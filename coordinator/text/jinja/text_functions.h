#pragma once

#include "coordinator/text/jinja/value.h"

namespace quire::jinja {

// Text functions as in Python. The bytes of results have the marks of their origin (MarkedText::marks). All functions
// charge the budget.

/// Byte positions of a text's characters. Needs no memory for ASCII text.
class CharacterIndex {
 public:
  CharacterIndex(std::string_view text, Budget& budget);

  int64_t size() const { return size_; }
  /// Returns the byte position of character i; the text's size for i == size().
  size_t Begin(int64_t i) const { return starts_.empty() ? static_cast<size_t>(i) : starts_[static_cast<size_t>(i)]; }

 private:
  int64_t size_ = 0;
  std::vector<uint32_t> starts_;  // offsets of the characters and of the text's end; empty: all have one byte
};

enum class Side { kBoth, kLeft, kRight };
MarkedText Strip(const MarkedText& text, Side side, const std::string* characters, Budget& budget);
/// Returns the byte position of the first `what` at or after `from`; npos when there is none. Takes time linear in the
/// text's length.
size_t Find(std::string_view text, std::string_view what, size_t from, Budget& budget);
List Split(const MarkedText& text, const std::string* separator, int64_t max_splits, bool from_right, Budget& budget);
/// Returns the lines of a text, as Python's str.splitlines() does.
List Lines(const MarkedText& text, bool keep_ends, Budget& budget);
/// Returns how often `what` occurs in the text without overlaps; for an empty `what`, the number of characters plus
/// one.
int64_t Count(const MarkedText& text, const std::string& what, Budget& budget);
MarkedText Replace(const MarkedText& text, const std::string& from, const MarkedText& to, int64_t max_count,
                   Budget& budget);
MarkedText Join(const List& items, const MarkedText& separator, Budget& budget);
MarkedText ToCase(const MarkedText& text, bool upper, Budget& budget);
MarkedText SwapCase(const MarkedText& text, Budget& budget);
MarkedText Capitalize(const MarkedText& text, Budget& budget);
/// Returns the text with each word's first letter in upper case and the others in lower case. Words begin after any
/// non-letter (Python's method), or after blanks, '-' and opening brackets (as_filter, Jinja's filter).
MarkedText Title(const MarkedText& text, bool as_filter, Budget& budget);
/// Replaces & < > ' and " by HTML entities.
MarkedText Escaped(const MarkedText& text, Budget& budget);
MarkedText Indent(const MarkedText& text, const std::string& prefix, bool first_line, bool blank_lines, Budget& budget);
/// Returns the number of runs of letters, digits and "_".
int64_t NumWords(const MarkedText& text, Budget& budget);
/// Returns Python's str.format of the text, with the placeholders {}, {NUMBER} and {NAME}. Throws Error for a
/// placeholder without an argument, and for conversions, format specifications and attributes, which are unsupported.
MarkedText Format(const MarkedText& text, const List& positional, const NamedArguments& named, Budget& budget);
/// Returns Python's text % value: uses a list's items one after another, a mapping's values by name, or the value
/// itself. Throws Error for a conversion other than %, s, r, d, i, u, x, X, o, f, F, e, E, g, G, for a conversion
/// without a value, and for unused values (except a mapping's).
MarkedText FormatPercent(const MarkedText& text, const Value& value, Budget& budget);
/// True when the text is not empty and `is` returns true for all its characters.
bool AllCharacters(const MarkedText& text, bool (*is)(char32_t), Budget& budget);
/// True when the text has letters of this case, and none of the other case.
bool IsCased(const MarkedText& text, bool upper, Budget& budget);
/// Returns the characters, each as a separate text.
List Characters(const MarkedText& text, Budget& budget);

}  // namespace quire::jinja

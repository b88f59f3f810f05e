#pragma once

#include "coordinator/text/jinja/value.h"

namespace quire::jinja {

// Functions of text, in Python's meaning, keeping the marks of every byte. All charge the budget before they begin.

/// Where the characters of a text begin. Takes no memory where every byte is one.
class CharacterIndex {
 public:
  CharacterIndex(std::string_view text, Budget& budget);

  int64_t size() const { return size_; }
  /// The byte that character i begins at; the end of the text for i == size().
  size_t Begin(int64_t i) const { return starts_.empty() ? static_cast<size_t>(i) : starts_[static_cast<size_t>(i)]; }

 private:
  int64_t size_ = 0;
  std::vector<uint32_t> starts_;  // and the end; empty when all characters are single bytes
};

enum class Side { kBoth, kLeft, kRight };
MarkedText Strip(const MarkedText& text, Side side, const std::string* characters, Budget& budget);
/// Byte of the first `what` at or after `from`, or npos. Linear in the text, whatever it holds.
size_t Find(std::string_view text, std::string_view what, size_t from, Budget& budget);
List Split(const MarkedText& text, const std::string* separator, int64_t max_splits, bool from_right, Budget& budget);
/// Python's str.splitlines().
List Lines(const MarkedText& text, bool keep_ends, Budget& budget);
/// How often `what` is in the text, without overlaps.
int64_t Count(const MarkedText& text, const std::string& what, Budget& budget);
MarkedText Replace(const MarkedText& text, const std::string& from, const MarkedText& to, int64_t max_count,
                   Budget& budget);
MarkedText Join(const List& items, const MarkedText& separator, Budget& budget);
MarkedText ToCase(const MarkedText& text, bool upper, Budget& budget);
MarkedText SwapCase(const MarkedText& text, Budget& budget);
MarkedText Capitalize(const MarkedText& text, Budget& budget);
/// Words begin after any non-letter (Python's method) or after blanks, '-' and opening brackets (Jinja's filter).
MarkedText Title(const MarkedText& text, bool as_filter, Budget& budget);
/// With the entities of HTML for & < > ' and ".
MarkedText Escaped(const MarkedText& text, Budget& budget);
MarkedText Indent(const MarkedText& text, const std::string& prefix, bool first_line, bool blank_lines, Budget& budget);
/// Runs of letters, digits and "_".
int64_t NumWords(const MarkedText& text, Budget& budget);
/// Python's str.format with the places {}, {NUMBER} and {NAME}. Throws Error for a place without an argument, and for
/// conversions, specifications and attributes, which are not supported.
MarkedText Format(const MarkedText& text, const List& positional, const NamedArguments& named, Budget& budget);
/// Python's text % value: a list's items one after the other, a mapping's by name, or the value itself. Throws Error
/// for a conversion that is not one of s, r, d, i, u, x, X, o, f, F, e, E, g, G, for one without a value, and for
/// values left over.
MarkedText FormatPercent(const MarkedText& text, const Value& value, Budget& budget);
/// Whether the text has characters, and all are such.
bool AllCharacters(const MarkedText& text, bool (*is)(char32_t), Budget& budget);
/// Whether the text has letters with a case, and all of those have this one.
bool IsCased(const MarkedText& text, bool upper, Budget& budget);
/// The characters as texts of their own.
List Characters(const MarkedText& text, Budget& budget);

}  // namespace quire::jinja

#pragma once

#include "coordinator/text/jinja/builtins.h"

namespace quire::jinja {

// Functions of text, in Python's meaning, keeping the marks of every byte.

enum class Side { kBoth, kLeft, kRight };
MarkedText Strip(const MarkedText& text, Side side, const std::string* characters);
List Split(const MarkedText& text, const std::string* separator, int64_t max_splits, bool from_right);
MarkedText Replace(const MarkedText& text, const std::string& from, const MarkedText& to, int64_t max_count);
MarkedText Join(const List& items, const MarkedText& separator);
/// ASCII letters only; other characters stay.
MarkedText ToCase(const MarkedText& text, bool upper);
MarkedText Capitalize(const MarkedText& text);
/// Words begin after any non-letter (Python's method) or after blanks, '-' and opening brackets (Jinja's filter).
MarkedText Title(const MarkedText& text, bool as_filter);
MarkedText Indent(const MarkedText& text, const std::string& prefix, bool first_line);
/// The characters as texts of their own.
List Characters(const MarkedText& text);

}  // namespace quire::jinja

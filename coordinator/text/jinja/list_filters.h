#pragma once

#include "coordinator/text/jinja/builtins.h"

namespace quire::jinja {

// Filters of what has items: lists, mappings (their keys) and texts (their characters). What is not true, none among
// it, has none. All charge the budget for what they make. As in Jinja, order and equality pass over case unless
// case_sensitive says otherwise.

/// selectattr, rejectattr, select, reject: keeps items whose attribute (or that themselves) pass a test.
Value Select(const Value& input, const Arguments& arguments, bool by_attribute, bool keep, Budget& budget);
Value Map(const Value& input, const Arguments& arguments, Budget& budget);
Value Sorted(const Value& input, const Arguments& arguments, Budget& budget);
/// Pairs of key and value, by either.
Value DictSorted(const Value& input, const Arguments& arguments, Budget& budget);
/// The smallest or largest item, the first of equal ones.
Value Extreme(const Value& input, const Arguments& arguments, bool largest, Budget& budget);
/// The first of those that are equal.
Value Unique(const Value& input, const Arguments& arguments, Budget& budget);
Value JoinItems(const Value& input, const Arguments& arguments, Budget& budget);
Value Sum(const Value& input, const Arguments& arguments, Budget& budget);
/// Lists of so many items each, the last one filled up where a filler is given.
Value Batch(const Value& input, const Arguments& arguments, Budget& budget);
Value First(const Value& input, bool last, Budget& budget);
Value Reversed(const Value& input, Budget& budget);

}  // namespace quire::jinja

#pragma once

#include "coordinator/text/jinja/builtins.h"

namespace quire::jinja {

// Filters for values with items: lists, mappings (their keys) and texts (their characters). Select() and Map() treat
// values that count as false, such as None, as empty lists. All filters charge the budget. As in Jinja, order and
// equality ignore upper and lower case unless case_sensitive is set.

/// Implements selectattr, rejectattr, select and reject, which keep or drop items. Each item, or an attribute of the
/// item (by_attribute), is tested. `keep`: true keeps the items that pass the test, false the items that fail.
Value Select(const Value& input, const Arguments& arguments, bool by_attribute, bool keep, Budget& budget);
Value Map(const Value& input, const Arguments& arguments, Budget& budget);
Value Sorted(const Value& input, const Arguments& arguments, Budget& budget);
/// Returns the (key, value) pairs of a mapping, sorted by key or value.
Value DictSorted(const Value& input, const Arguments& arguments, Budget& budget);
/// Returns the smallest or largest item; if several items are equal, the first of them. Returns an undefined value when
/// there are no items.
Value Extreme(const Value& input, const Arguments& arguments, bool largest, Budget& budget);
/// Returns the items without repetitions: the first of each set of equal items.
Value Unique(const Value& input, const Arguments& arguments, Budget& budget);
Value JoinItems(const Value& input, const Arguments& arguments, Budget& budget);
Value Sum(const Value& input, const Arguments& arguments, Budget& budget);
/// Returns lists of `linecount` items each. The last list is filled up with fill_with, if that is given.
Value Batch(const Value& input, const Arguments& arguments, Budget& budget);
Value First(const Value& input, bool last, Budget& budget);
Value Reversed(const Value& input, Budget& budget);

}  // namespace quire::jinja

#pragma once

#include <optional>
#include <string>

#include "coordinator/text/jinja/value.h"

namespace quire::jinja {

/// Arguments of a filter, test or method call, found by position or by name.
struct Arguments {
  List positional;
  NamedArguments named;

  /// Return the argument at position i or with this name; null when it is missing. Text() also returns null for None,
  /// and throws Error for a value that is no text.
  const Value* Get(size_t i, const char* name) const;
  const std::string* Text(size_t i, const char* name) const;
  /// Return the argument at position i or with this name, or `otherwise` when it is missing. Integer() also returns
  /// `otherwise` for None, and throws Error for a value that is neither integer nor boolean.
  int64_t Integer(size_t i, const char* name, int64_t otherwise) const;
  bool Flag(size_t i, const char* name, bool otherwise = false) const;
};

/// Returns the text of a value. Throws Error, which names `what`, for values of other types.
const MarkedText& TextOf(const Value& value, const char* what);

/// Returns input | name(arguments). Throws Error for an unknown filter.
Value ApplyFilter(const std::string& name, const Value& input, const Arguments& arguments, Budget& budget);

/// Returns `input is name(arguments)`. Throws Error for an unknown test.
bool ApplyTest(const std::string& name, const Value& input, const Arguments& arguments, Budget& budget);

/// Returns input.name(arguments) for texts, lists and mappings. Throws Error for an unknown method.
Value CallMethod(const Value& input, const std::string& name, const Arguments& arguments, Budget& budget);

/// IsMethod: true when `dict` is a mapping, not a namespace, and mappings have a method with this name. As in Python,
/// dict.name then means the method, even if an entry has the same name. Method: returns a placeholder for the method;
/// the placeholder throws Error when it is called.
bool IsMethod(const Dict& dict, const std::string& name);
Value Method(const std::string& name);

/// Returns the result of `left op right`, for arithmetic, comparison, containment and concatenation.
Value ApplyBinary(const std::string& op, const Value& left, const Value& right, Budget& budget);

/// Return value[index] and value[start:stop:step] by Python's rules. Subscript returns an undefined value when the item
/// does not exist. Slice throws Error for values that are neither text nor list.
Value Subscript(const Value& value, const Value& index, Budget& budget);
Value Slice(const Value& value, const Value* start, const Value* stop, const Value* step, Budget& budget);

/// Returns the items of a for loop: items of a list, keys of a mapping, characters of a text, none for an undefined
/// value. Throws Error for other values.
List Items(const Value& value, Budget& budget);
/// Returns a value as a key of a mapping; nullopt for lists, mappings, functions and undefined values.
std::optional<Key> KeyOf(const Value& value);
/// Returns a mapping's key as a value. A text key counts as the user's text, because the mapping may be the request's.
Value KeyValue(const Key& key, Budget& budget);
/// Returns a mapping's entries as a list of (key, value) tuples.
Value DictItems(const Value& value, Budget& budget);

}  // namespace quire::jinja

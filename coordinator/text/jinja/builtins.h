#pragma once

#include <optional>
#include <string>

#include "coordinator/text/jinja/value.h"

namespace quire::jinja {

/// Arguments of a filter, test or method call. Each is found by its place or by its name.
struct Arguments {
  List positional;
  NamedArguments named;

  /// Null when it is missing; so is a text that is none. Throws Error for a value of another type.
  const Value* Get(size_t i, const char* name) const;
  const std::string* Text(size_t i, const char* name) const;
  /// `otherwise` when it is missing or none.
  int64_t Integer(size_t i, const char* name, int64_t otherwise) const;
  bool Flag(size_t i, const char* name, bool otherwise = false) const;
};

/// The text of a value; throws Error naming `what` for anything else.
const MarkedText& TextOf(const Value& value, const char* what);

/// input | name(arguments). Throws Error for an unknown filter.
Value ApplyFilter(const std::string& name, const Value& input, const Arguments& arguments, Budget& budget);

/// input is name(arguments). Throws Error for an unknown test.
bool ApplyTest(const std::string& name, const Value& input, const Arguments& arguments, Budget& budget);

/// input.name(arguments) for text, lists and mappings. Throws Error for an unknown method.
Value CallMethod(const Value& input, const std::string& name, const Arguments& arguments, Budget& budget);

/// Whether a mapping has this method, which as in Python hides what it holds under the name; and the method as a value,
/// which says no more than that there is one.
bool IsMethod(const Dict& dict, const std::string& name);
Value Method(const std::string& name);

/// left op right for arithmetic, comparison and containment.
Value ApplyBinary(const std::string& op, const Value& left, const Value& right, Budget& budget);

/// value[index] and value[start:stop:step] with Python's rules; undefined when there is nothing.
Value Subscript(const Value& value, const Value& index, Budget& budget);
Value Slice(const Value& value, const Value* start, const Value* stop, const Value* step, Budget& budget);

/// What a for loop walks over: the items of a list, the keys of a mapping, the characters of a text.
List Items(const Value& value, Budget& budget);
/// A value as a key of mappings; none for what cannot be one: lists, mappings, functions and undefined values.
std::optional<Key> KeyOf(const Value& value);
/// A mapping's key as a value. Keys that are texts count as the user's: a mapping may have come with the request.
Value KeyValue(const Key& key, Budget& budget);
/// A mapping's items as lists of key and value.
Value DictItems(const Value& value, Budget& budget);

}  // namespace quire::jinja

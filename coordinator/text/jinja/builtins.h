#pragma once

#include <string>

#include "coordinator/text/jinja/value.h"

namespace quire::jinja {

/// Arguments of a filter, test or method call.
struct Arguments {
  List positional;
  NamedArguments named;

  /// The positional argument i, or the named one; null when it is missing.
  const Value* Get(size_t i, const char* name) const;
};

/// input | name(arguments). Throws Error for an unknown filter.
Value ApplyFilter(const std::string& name, const Value& input, const Arguments& arguments, Budget& budget);

/// input is name(arguments). Throws Error for an unknown test.
bool ApplyTest(const std::string& name, const Value& input, const Arguments& arguments, Budget& budget);

/// input.name(arguments) for text, lists and mappings. Throws Error for an unknown method.
Value CallMethod(const Value& input, const std::string& name, const Arguments& arguments, Budget& budget);

/// left op right for arithmetic, comparison and containment.
Value ApplyBinary(const std::string& op, const Value& left, const Value& right, Budget& budget);

/// value[index] and value[start:stop:step] with Python's rules; undefined when there is nothing.
Value Subscript(const Value& value, const Value& index, Budget& budget);
Value Slice(const Value& value, const Value* start, const Value* stop, const Value* step, Budget& budget);

/// What a for loop walks over: the items of a list, the keys of a mapping, the characters of a text.
List Items(const Value& value, Budget& budget);
/// A mapping's key as a text. Keys count as the user's: a mapping may have come with the request.
Value KeyText(const std::string& key, Budget& budget);

}  // namespace quire::jinja

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
Value ApplyFilter(const std::string& name, const Value& input, const Arguments& arguments);

/// input is name(arguments). Throws Error for an unknown test.
bool ApplyTest(const std::string& name, const Value& input, const Arguments& arguments);

/// input.name(arguments) for text, lists and mappings. Throws Error for an unknown method.
Value CallMethod(const Value& input, const std::string& name, const Arguments& arguments);

/// left op right for arithmetic, comparison and containment.
Value ApplyBinary(const std::string& op, const Value& left, const Value& right);

/// value[index] and value[start:stop:step] with Python's rules; undefined when there is nothing.
Value Subscript(const Value& value, const Value& index);
Value Slice(const Value& value, const Value* start, const Value* stop, const Value* step);

/// What a template may make: bytes of a text, and items of a list, which take some hundred bytes each.
inline constexpr size_t kMaxMade = 16 << 20, kMaxItems = 1 << 20;

/// What a for loop walks over: the items of a list, the keys of a mapping, the characters of a text.
List Items(const Value& value);

}  // namespace quire::jinja

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/base/json.h"
#include "comm/schema/number_texts.h"
#include "comm/schema/text_automaton.h"

namespace quire {

/// The types of JSON values, as bits. An integer is also a number.
enum JsonType : uint8_t {
  kNullType = 1,
  kBooleanType = 2,
  kIntegerType = 4,
  kNumberType = 8,  // whole or with decimals
  kStringType = 16,
  kArrayType = 32,
  kObjectType = 64,
  kAnyType = 127,
};

/// Bounds for the number of items, members or characters.
struct Counts {
  size_t least = 0;
  std::optional<size_t> most;
  bool bounded() const { return least > 0 || most.has_value(); }
};

/// A schema without references, alternatives and combinations. Such a schema accepts a value when the value has one of
/// `types`, is one of `values` if these are given, and fulfils the constraints of its type. Nested schemas are as the
/// client wrote them.
struct PlainSchema {
  using Named = std::vector<std::pair<std::string, OrderedJson>>;

  unsigned types = kAnyType;
  std::optional<std::vector<OrderedJson>> values;

  std::optional<TextAutomaton> texts;  // none: any text
  Counts length;                       // allowed lengths of strings, in addition to `texts`

  std::vector<NumberBound> bounds;
  int64_t divisor = 1;  // integers must be multiples of `divisor`

  std::vector<OrderedJson> first_items;
  OrderedJson items = true;  // schema of the items after first_items
  Counts item_count;

  Named properties;
  Named by_pattern;  // schemas of members whose name matches a pattern
  OrderedJson others = true;
  OrderedJson names = true;  // schema that member names must fulfil
  std::vector<std::string> required;
  Counts member_count;

  bool Has(JsonType type) const { return (types & type) != 0; }
  bool Requires(std::string_view name) const;
  /// True when every string is accepted.
  bool TakesAllTexts() const { return Has(kStringType) && !values && !texts && !length.bounded(); }
  /// Returns the strings that both `texts` and `length` allow.
  TextAutomaton Texts() const;
  /// Returns the number of automaton states of `texts` and `length` combined; 0 unless both are set, and SIZE_MAX if
  /// the states are too many to be computed.
  size_t StatesOfCountedTexts() const;
  /// Returns the schema that a member of this name must fulfil.
  OrderedJson ForName(const std::string& name) const;
};

/// Returns the work units to copy the tree: one for each value, and one for each 64 bytes of text.
int64_t WorkOfCopy(const OrderedJson& tree);

/// Returns a schema that accepts the values that both schemas accept.
OrderedJson BothOf(const OrderedJson& a, const OrderedJson& b);

/// Returns a plain schema that accepts the values that both schemas accept. Throws Error for combinations that are not
/// supported.
PlainSchema Merged(const PlainSchema& a, const PlainSchema& b);

/// Returns the type of a value. An integer beyond 64 bits (exact_json.h) counts as an integer.
JsonType TypeOf(const OrderedJson& value);

}  // namespace quire

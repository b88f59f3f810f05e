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

/// Types of JSON's values, as bits. An integer is a number, too.
enum JsonType : uint8_t {
  kNullType = 1,
  kBooleanType = 2,
  kIntegerType = 4,
  kNumberType = 8,  // with or without decimals
  kStringType = 16,
  kArrayType = 32,
  kObjectType = 64,
  kAnyType = 127,
};

/// How many items, members or characters there may be.
struct Counts {
  size_t least = 0;
  std::optional<size_t> most;
  bool bounded() const { return least > 0 || most.has_value(); }
};

/// A schema without references and alternatives: a value is accepted when it is of one of the types, is one of `values`
/// if there are any, and keeps to what is said of its type. Schemas inside are as the client wrote them.
struct PlainSchema {
  using Named = std::vector<std::pair<std::string, OrderedJson>>;

  unsigned types = kAnyType;
  std::optional<std::vector<OrderedJson>> values;

  std::optional<TextAutomaton> texts;  // none: any text
  Counts length;                       // of texts, beside `texts`

  std::vector<NumberBound> bounds;
  int64_t divisor = 1;  // of integers

  std::vector<OrderedJson> first_items;
  OrderedJson items = true;  // behind those
  Counts item_count;

  Named properties;
  Named by_pattern;  // by patterns of names
  OrderedJson others = true;
  OrderedJson names = true;  // what names have to be accepted by
  std::vector<std::string> required;
  Counts member_count;

  bool Has(JsonType type) const { return (types & type) != 0; }
  bool Requires(std::string_view name) const;
  /// The text of a value is of no interest but for its type.
  bool TakesAllTexts() const { return Has(kStringType) && !values && !texts && !length.bounded(); }
  /// All that texts have to be, lengths among it.
  TextAutomaton Texts() const;
  /// States that lengths and something else come to together; 0: only one of both is there.
  size_t StatesOfCountedTexts() const;
  /// What a member of that name has to be accepted by.
  OrderedJson ForName(const std::string& name) const;
};

/// Units of work that a copy of the tree takes: one a value, and one for 64 bytes of text.
int64_t WorkOfCopy(const OrderedJson& tree);

/// A schema that accepts what both do.
OrderedJson BothOf(const OrderedJson& a, const OrderedJson& b);

/// What both accept. Throws Error for combinations that are not known.
PlainSchema Merged(const PlainSchema& a, const PlainSchema& b);

/// An integer beyond 64 bits (exact_json.h) is one, too.
JsonType TypeOf(const OrderedJson& value);

}  // namespace quire

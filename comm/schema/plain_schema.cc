#include "comm/schema/plain_schema.h"

#include <algorithm>
#include <numeric>

#include "comm/base/error.h"
#include "comm/schema/text_pattern.h"

namespace quire {

namespace {

Counts BothCounts(const Counts& a, const Counts& b) {
  Counts out{std::max(a.least, b.least), a.most};
  if (b.most) out.most = std::min(*b.most, out.most.value_or(*b.most));
  return out;
}

unsigned BothTypes(unsigned a, unsigned b) {
  // An integer is what a number and an integer have in common.
  if ((a & kNumberType) != 0) a |= kIntegerType;
  if ((b & kNumberType) != 0) b |= kIntegerType;
  return a & b;
}

void MergeItems(const PlainSchema& a, const PlainSchema& b, PlainSchema& out) {
  const auto at = [](const PlainSchema& schema, size_t i) {
    return i < schema.first_items.size() ? schema.first_items[i] : schema.items;
  };
  out.first_items.clear();
  for (size_t i = 0; i < std::max(a.first_items.size(), b.first_items.size()); ++i)
    out.first_items.push_back(BothOf(at(a, i), at(b, i)));
  out.items = BothOf(a.items, b.items);
  out.item_count = BothCounts(a.item_count, b.item_count);
}

void MergeMembers(const PlainSchema& a, const PlainSchema& b, PlainSchema& out) {
  const auto speaks = [](const PlainSchema& schema) { return !schema.by_pattern.empty() || schema.others != true; };
  const bool same_patterns = a.by_pattern == b.by_pattern;
  if (!same_patterns && speaks(a) && speaks(b))
    Fail("joins patternProperties with another schema's other members, which is not supported");
  out.properties.clear();
  for (const PlainSchema* one : {&a, &b}) {
    const PlainSchema& other = one == &a ? b : a;
    for (const auto& [name, schema] : one->properties) {
      if (std::ranges::count(out.properties, name, &PlainSchema::Named::value_type::first) == 0)
        out.properties.emplace_back(name, BothOf(schema, other.ForName(name)));
    }
  }
  out.by_pattern = a.by_pattern.empty() ? b.by_pattern : a.by_pattern;
  out.others = BothOf(a.others, b.others);
  out.names = BothOf(a.names, b.names);
  out.required = a.required;
  for (const std::string& name : b.required) {
    if (!a.Requires(name)) out.required.push_back(name);
  }
  out.member_count = BothCounts(a.member_count, b.member_count);
}

}  // namespace

bool PlainSchema::Requires(std::string_view name) const { return std::ranges::count(required, name) > 0; }

TextAutomaton PlainSchema::Texts() const {
  if (!length.bounded()) return texts.value_or(TextAutomaton::Any());
  const TextAutomaton counted = TextAutomaton::OfLength(length.least, length.most);
  return texts ? Intersection(*texts, counted) : counted;
}

size_t PlainSchema::StatesOfCountedTexts() const {
  constexpr size_t kMostTogether = 1024;  // what more come to is not worth the work to know
  if (!texts || !length.bounded()) return 0;
  if (texts->states.size() * (length.most.value_or(length.least) + 1) > kMostTogether) return SIZE_MAX;
  try {
    return Texts().states.size();
  } catch (const Error&) {
    return SIZE_MAX;
  }
}

OrderedJson PlainSchema::ForName(const std::string& name) const {
  const auto property = std::ranges::find(properties, name, &Named::value_type::first);
  OrderedJson schema = true;
  bool known = property != properties.end();
  if (known) schema = property->second;
  for (const auto& [pattern, one] : by_pattern) {
    if (!TextsWith(pattern).Accepts(name)) continue;
    known = true;
    schema = BothOf(schema, one);
  }
  return known ? schema : others;
}

OrderedJson BothOf(const OrderedJson& a, const OrderedJson& b) {
  const auto takes_all = [](const OrderedJson& schema) { return schema == true || schema == OrderedJson::object(); };
  if (takes_all(a) || a == b || b == false) return b;
  if (takes_all(b) || a == false) return a;
  return {{"allOf", OrderedJson::array({a, b})}};
}

PlainSchema Merged(const PlainSchema& a, const PlainSchema& b) {
  PlainSchema out = a;
  out.types = BothTypes(a.types, b.types);
  if (!a.values) out.values = b.values;
  if (a.values && b.values)
    std::erase_if(*out.values, [&](const OrderedJson& value) { return std::ranges::count(*b.values, value) == 0; });
  if (!a.texts) out.texts = b.texts;
  if (a.texts && b.texts) out.texts = Intersection(*a.texts, *b.texts);
  out.length = BothCounts(a.length, b.length);
  out.bounds.insert(out.bounds.end(), b.bounds.begin(), b.bounds.end());
  out.divisor = std::lcm(a.divisor, b.divisor);
  if (out.divisor > kMostDivisor) Fail("joins values of multipleOf whose common multiple is over {}", kMostDivisor);
  MergeItems(a, b, out);
  MergeMembers(a, b, out);
  return out;
}

JsonType TypeOf(const OrderedJson& value) {
  if (value.is_null()) return kNullType;
  if (value.is_boolean()) return kBooleanType;
  if (value.is_string()) return kStringType;
  if (value.is_array()) return kArrayType;
  if (value.is_object()) return kObjectType;
  return value.is_number_integer() || value.is_binary() ? kIntegerType : kNumberType;
}

}  // namespace quire

#include "comm/schema/plain_schema.h"

#include <algorithm>
#include <numeric>

#include "comm/base/error.h"
#include "comm/schema/schema_work.h"
#include "comm/schema/text_pattern.h"

namespace quire {

namespace {

Counts BothCounts(const Counts& a, const Counts& b) {
  Counts out{std::max(a.least, b.least), a.most};
  if (b.most) out.most = std::min(*b.most, out.most.value_or(*b.most));
  return out;
}

unsigned BothTypes(unsigned a, unsigned b) {
  // The integers are the common part of numbers and integers.
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

/// Returns the work units to copy everything in the schema.
int64_t WorkOf(const PlainSchema& schema) {
  int64_t work = 10 + WorkOfCopy(schema.items) + WorkOfCopy(schema.others) + WorkOfCopy(schema.names);
  for (const auto* named : {&schema.properties, &schema.by_pattern}) {
    for (const auto& [name, inside] : *named) work += WorkOfCopy(inside);
  }
  for (const OrderedJson& item : schema.first_items) work += WorkOfCopy(item);
  if (schema.values) {
    for (const OrderedJson& value : *schema.values) work += WorkOfCopy(value);
  }
  if (!schema.texts) return work;
  for (const TextAutomaton::State& state : schema.texts->states)
    work += 1 + static_cast<int64_t>(state.edges.size() / 4);
  return work;
}

/// Returns the work units to merge two schemas: their names and values are compared pairwise, some nanoseconds each.
int64_t WorkOfMerging(const PlainSchema& a, const PlainSchema& b) {
  const auto pairs = [](size_t one, size_t other) { return static_cast<int64_t>(one * other / 8); };
  const size_t names = a.properties.size() + b.properties.size();
  const size_t values = a.values && b.values ? a.values->size() * b.values->size() : 0;
  return WorkOf(a) + WorkOf(b) + pairs(names, names) + pairs(a.required.size(), b.required.size()) + pairs(values, 1);
}

}  // namespace

bool PlainSchema::Requires(std::string_view name) const { return std::ranges::count(required, name) > 0; }

TextAutomaton PlainSchema::Texts() const {
  if (!length.bounded()) return texts.value_or(TextAutomaton::Any());
  const TextAutomaton counted = TextAutomaton::OfLength(length.least, length.most);
  return texts ? Intersection(*texts, counted) : counted;
}

size_t PlainSchema::StatesOfCountedTexts() const {
  constexpr size_t kMostTogether = 1024;  // larger combinations are not worth computing
  if (!texts || !length.bounded()) return 0;
  if (texts->states.size() * (length.most.value_or(length.least) + 1) > kMostTogether) return SIZE_MAX;
  try {
    return Texts().states.size();
  } catch (const Error&) {
    return SIZE_MAX;
  }
}

OrderedJson PlainSchema::ForName(const std::string& name) const {
  ChargeSchemaWork(1 + static_cast<int64_t>(properties.size() / 8));
  const auto property = std::ranges::find(properties, name, &Named::value_type::first);
  OrderedJson schema = true;
  bool known = property != properties.end();
  if (known) {
    ChargeSchemaWork(WorkOfCopy(property->second));
    schema = property->second;
  }
  for (const auto& [pattern, one] : by_pattern) {
    if (!TextsWith(pattern).Accepts(name)) continue;
    known = true;
    schema = BothOf(schema, one);
  }
  return known ? schema : others;
}

int64_t WorkOfCopy(const OrderedJson& tree) {
  if (const auto* text = tree.get_ptr<const OrderedJson::string_t*>())
    return 1 + static_cast<int64_t>(text->size() / 64);
  int64_t work = 1;
  if (!tree.is_structured()) return work;
  for (const auto& [key, value] : tree.items()) work += WorkOfCopy(value) + static_cast<int64_t>(key.size() / 64);
  return work;
}

OrderedJson BothOf(const OrderedJson& a, const OrderedJson& b) {
  ChargeSchemaWork(WorkOfCopy(a) + WorkOfCopy(b));
  const auto takes_all = [](const OrderedJson& schema) { return schema == true || schema == OrderedJson::object(); };
  if (takes_all(a) || a == b || b == false) return b;
  if (takes_all(b) || a == false) return a;
  return {{"allOf", OrderedJson::array({a, b})}};
}

PlainSchema Merged(const PlainSchema& a, const PlainSchema& b) {
  ChargeSchemaWork(WorkOfMerging(a, b));
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

#include "comm/schema/schema_values.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "comm/base/exact_json.h"
#include "comm/schema/schema_work.h"

namespace quire {

namespace {

constexpr int kDeepestMember = 8;  // nesting depth of members that are compared to tell two schemas apart

bool IsWithin(const Counts& counts, size_t count) {
  return count >= counts.least && count <= counts.most.value_or(count);
}

bool AcceptsNumber(const PlainSchema& schema, const OrderedJson& value) {
  if (value.is_binary()) return IntegerTexts(schema.bounds, schema.divisor).Accepts(LongInteger(value));
  const double number = value.get<double>();
  const bool whole = value.is_number_integer() || number == std::floor(number);
  if (!schema.Has(kNumberType) && !whole) return false;
  if (schema.divisor > 1 && std::fmod(number, static_cast<double>(schema.divisor)) != 0) return false;
  return std::ranges::all_of(schema.bounds, [&](const NumberBound& bound) {
    const OrderedJson limit = OrderedJson::parse(bound.number);
    if (value == limit) return !bound.excluded;
    return bound.upper ? value < limit : value > limit;
  });
}

bool AcceptsArray(const SchemaReader& reader, const PlainSchema& schema, const OrderedJson& value) {
  if (!IsWithin(schema.item_count, value.size())) return false;
  for (size_t i = 0; i < value.size(); ++i) {
    const OrderedJson& item = i < schema.first_items.size() ? schema.first_items[i] : schema.items;
    if (!Accepts(reader, item, value[i])) return false;
  }
  return true;
}

bool AcceptsObject(const SchemaReader& reader, const PlainSchema& schema, const OrderedJson& value) {
  if (!IsWithin(schema.member_count, value.size())) return false;
  if (!std::ranges::all_of(schema.required, [&](const std::string& name) { return value.contains(name); }))
    return false;
  return std::ranges::all_of(value.items(), [&](const auto& member) {
    return Accepts(reader, schema.names, member.key()) && Accepts(reader, schema.ForName(member.key()), member.value());
  });
}

bool ExcludePlain(const SchemaReader& reader, const PlainSchema& a, const PlainSchema& b, int depth);

bool ExcludeAt(const SchemaReader& reader, const OrderedJson& a, const OrderedJson& b, int depth) {
  const auto of_a = reader.Alternatives(a), of_b = reader.Alternatives(b);
  return std::ranges::all_of(of_a, [&](const PlainSchema& one) {
    return std::ranges::all_of(of_b, [&](const PlainSchema& other) { return ExcludePlain(reader, one, other, depth); });
  });
}

/// True when one of the objects requires a member for which no value fulfils the schemas of both objects.
bool ExcludeObjects(const SchemaReader& reader, const PlainSchema& a, const PlainSchema& b, int depth) {
  const auto told_apart = [&](const std::string& name) {
    return ExcludeAt(reader, a.ForName(name), b.ForName(name), depth + 1);
  };
  return std::ranges::any_of(a.required, told_apart) || std::ranges::any_of(b.required, told_apart);
}

bool ExcludePlain(const SchemaReader& reader, const PlainSchema& a, const PlainSchema& b, int depth) {
  ChargeSchemaWork(20);
  if (depth > kDeepestMember) return false;
  const PlainSchema both = Merged(a, b);
  if (both.types == 0) return true;
  if (a.values || b.values) {
    const std::vector<OrderedJson>& values = a.values ? *a.values : *b.values;
    return std::ranges::none_of(
        values, [&](const OrderedJson& value) { return Accepts(reader, a, value) && Accepts(reader, b, value); });
  }
  if (both.Has(kNullType) || both.Has(kBooleanType)) return false;
  if (both.Has(kStringType) && !both.Texts().IsEmpty()) return false;
  if (both.Has(kNumberType) && !NumberTexts(both.bounds).IsEmpty()) return false;
  if (both.Has(kIntegerType) && !IntegerTexts(both.bounds, both.divisor).IsEmpty()) return false;
  const bool counts_differ = both.item_count.least > both.item_count.most.value_or(both.item_count.least);
  if (both.Has(kArrayType) && !counts_differ) return false;
  return !both.Has(kObjectType) || ExcludeObjects(reader, a, b, depth);
}

}  // namespace

bool Accepts(const SchemaReader& reader, const PlainSchema& schema, const OrderedJson& value) {
  ChargeSchemaWork(20 + static_cast<int64_t>(schema.values ? schema.values->size() / 8 : 0));
  if (schema.values && std::ranges::count(*schema.values, value) == 0) return false;
  switch (TypeOf(value)) {
    case kStringType:
      return schema.Has(kStringType) && schema.Texts().Accepts(value.get_ref<const std::string&>());
    case kIntegerType:
    case kNumberType:
      return (schema.types & (kIntegerType | kNumberType)) != 0 && AcceptsNumber(schema, value);
    case kArrayType:
      return schema.Has(kArrayType) && AcceptsArray(reader, schema, value);
    case kObjectType:
      return schema.Has(kObjectType) && AcceptsObject(reader, schema, value);
    default:
      return schema.Has(TypeOf(value));
  }
}

bool Accepts(const SchemaReader& reader, const OrderedJson& schema, const OrderedJson& value) {
  const auto alternatives = reader.Alternatives(schema);
  return std::ranges::any_of(alternatives, [&](const PlainSchema& one) { return Accepts(reader, one, value); });
}

bool Exclude(const SchemaReader& reader, const OrderedJson& a, const OrderedJson& b) {
  return ExcludeAt(reader, a, b, 0);
}

}  // namespace quire

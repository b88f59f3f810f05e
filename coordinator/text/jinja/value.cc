#include "coordinator/text/jinja/value.h"

#include <algorithm>
#include <cstdlib>

#include "comm/base/error.h"
#include "comm/base/json.h"

namespace quire::jinja {

namespace {

template <class AnyJson>
Value ValueOf(const AnyJson& json, char mark) {
  switch (json.type()) {
    case AnyJson::value_t::boolean:
      return Value(json.template get<bool>());
    case AnyJson::value_t::number_unsigned:
      if (json.template get<uint64_t>() > INT64_MAX) return Value(LongInteger{json.dump()});
      return Value(json.template get<int64_t>());
    case AnyJson::value_t::number_integer:
      return Value(json.template get<int64_t>());
    case AnyJson::value_t::number_float:
      return Value(json.template get<double>());
    case AnyJson::value_t::binary:  // a large integer from ParseExactJson
      return Value(LongInteger{{json.get_binary().begin(), json.get_binary().end()}});
    case AnyJson::value_t::string:
      return Value(MarkedText(json.template get_ref<const std::string&>(), mark));
    case AnyJson::value_t::array: {
      List list;
      for (const AnyJson& item : json) list.push_back(ValueOf(item, mark));
      return Value(std::move(list));
    }
    case AnyJson::value_t::object: {
      Dict dict;
      for (const auto& [key, item] : json.items()) dict.entries.emplace_back(Key(key), ValueOf(item, mark));
      return Value(std::move(dict));
    }
    default:
      return Value();
  }
}

}  // namespace

Value Value::FromJson(const Json& json, char mark) { return ValueOf(json, mark); }
Value Value::FromJson(const OrderedJson& json, char mark) { return ValueOf(json, mark); }

bool Value::Truthy() const {
  if (const bool* b = As<bool>()) return *b;
  if (const int64_t* i = As<int64_t>()) return *i != 0;
  if (const double* d = As<double>()) return *d != 0;
  if (AsLongInteger()) return true;
  if (const MarkedText* text = AsText()) return !text->text.empty();
  if (const List* list = AsList()) return !list->empty();
  if (const Dict* dict = AsDict()) return !dict->entries.empty();
  return AsFunction() != nullptr;
}

double Value::Number() const {
  if (const bool* b = As<bool>()) return *b ? 1 : 0;
  if (const int64_t* i = As<int64_t>()) return static_cast<double>(*i);
  if (const double* d = As<double>()) return *d;
  if (const LongInteger* i = AsLongInteger()) return std::strtod(i->digits.c_str(), nullptr);
  Fail("expected a number, got {}", TypeName());
}

int64_t Value::Integer(const char* what) const {
  if (const bool* b = As<bool>()) return *b ? 1 : 0;
  if (const int64_t* i = As<int64_t>()) return *i;
  Fail("{}: expected an integer, got {}", what, TypeName());
}

const char* Value::TypeName() const {
  if (IsUndefined()) return "undefined";
  if (IsNone()) return "none";
  if (As<bool>()) return "boolean";
  if (As<int64_t>() || AsLongInteger()) return "integer";
  if (As<double>()) return "float";
  if (AsText()) return "string";
  if (AsTuple()) return "tuple";
  if (AsList()) return "list";
  if (AsDict()) return "mapping";
  return "function";
}

namespace {

bool EqualMappings(const Dict& a, const Dict& b, Budget& budget) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* other = b.Find(key, budget);
    if (other == nullptr || !Value::Equal(value, *other, budget)) return false;
  }
  return true;
}

}  // namespace

bool Value::Equal(const Value& a, const Value& b, Budget& budget) {
  const Budget::Level level(budget);
  budget.Work(1);
  if (a.AsLongInteger() && b.AsLongInteger()) return a.AsLongInteger()->digits == b.AsLongInteger()->digits;
  if (a.IsNumber() && b.IsNumber()) return a.Number() == b.Number();
  if (a.AsText() && b.AsText()) {
    budget.Scan(std::min(a.AsText()->text.size(), b.AsText()->text.size()));
    return a.AsText()->text == b.AsText()->text;
  }
  if (a.AsList() && b.AsList()) {
    if ((a.AsTuple() == nullptr) != (b.AsTuple() == nullptr)) return false;
    const List &x = *a.AsList(), &y = *b.AsList();
    return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                      [&](const Value& p, const Value& q) { return Equal(p, q, budget); });
  }
  if (a.AsDict() && b.AsDict()) return EqualMappings(*a.AsDict(), *b.AsDict(), budget);
  return (a.IsNone() && b.IsNone()) || (a.IsUndefined() && b.IsUndefined());
}

bool Value::Less(const Value& a, const Value& b, Budget& budget) {
  if (a.IsNumber() && b.IsNumber()) return budget.Work(1), a.Number() < b.Number();
  if (a.AsText() && b.AsText()) {
    budget.Scan(std::min(a.AsText()->text.size(), b.AsText()->text.size()));
    return a.AsText()->text < b.AsText()->text;
  }
  if (a.AsList() && b.AsList() && (a.AsTuple() == nullptr) == (b.AsTuple() == nullptr)) {
    const Budget::Level level(budget);
    const List &x = *a.AsList(), &y = *b.AsList();
    budget.Work(1 + std::min(x.size(), y.size()));
    const auto [p, q] = std::mismatch(x.begin(), x.end(), y.begin(), y.end(),
                                      [&](const Value& l, const Value& r) { return Equal(l, r, budget); });
    if (p == x.end() || q == y.end()) return p == x.end() && q != y.end();
    return Less(*p, *q, budget);
  }
  Fail("{} and {} have no order", a.TypeName(), b.TypeName());
}

}  // namespace quire::jinja

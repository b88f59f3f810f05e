#include "coordinator/text/jinja/list_filters.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "comm/base/error.h"
#include "coordinator/text/jinja/text_functions.h"

namespace quire::jinja {

namespace {

/// Returns a text in lower case; returns other values unchanged.
Value Folded(const Value& value, Budget& budget) {
  return value.AsText() != nullptr ? Value(ToCase(*value.AsText(), false, budget)) : value;
}

/// Returns item.a.b for the attribute "a.b", item[1] for the attribute 1, and the item itself without an attribute. If
/// `otherwise` is not null, it replaces each undefined value on the way.
Value AttributeOf(const Value& item, const Value* attribute, const Value* otherwise, Budget& budget) {
  if (attribute == nullptr || attribute->IsNone()) return item;
  const auto step = [&](const Value& from, const Value& name) {
    Value found = Subscript(from, name, budget);
    return found.IsUndefined() && otherwise != nullptr ? *otherwise : found;
  };
  if (attribute->AsText() == nullptr) return step(item, *attribute);
  const std::string point = ".";
  Value found = item;
  for (const Value& part : Split(*attribute->AsText(), &point, -1, false, budget)) {
    const std::string& name = part.AsText()->text;
    const bool is_number = !name.empty() && name.size() < 10 && name.find_first_not_of("0123456789") == name.npos;
    found = step(found, is_number ? Value(static_cast<int64_t>(std::stoll(name))) : part);
  }
  return found;
}

/// Pairs of sort key and item.
using Keyed = std::vector<std::pair<Value, Value>>;

/// Splits a text into the attributes that it names, separated by commas. Returns another value, such as an index, as
/// the only attribute; without an attribute, returns one None.
List AttributesOf(const Value* attribute, Budget& budget) {
  if (attribute == nullptr) return {Value()};
  const std::string comma = ",";
  if (attribute->AsText() == nullptr) return {*attribute};
  return Split(*attribute->AsText(), &comma, -1, false, budget);
}

Keyed WithKeys(const Value& input, const Value* attribute, bool case_sensitive, Budget& budget) {
  Keyed keyed;
  const List attributes = AttributesOf(attribute, budget);
  for (const Value& item : Items(input, budget)) {
    List keys;
    budget.MakeItems(attributes.size());
    for (const Value& one : attributes) {
      const Value key = AttributeOf(item, &one, nullptr, budget);
      keys.push_back(case_sensitive ? key : Folded(key, budget));
    }
    keyed.emplace_back(keys.size() == 1 ? std::move(keys.front()) : Value(std::move(keys)), item);
  }
  budget.MakeItems(2 * keyed.size());
  return keyed;
}

Value SortedItems(Keyed keyed, bool reverse, Budget& budget) {
  const auto less = [&](const auto& x, const auto& y) { return Value::Less(x.first, y.first, budget); };
  // Items that are equal stay in their order, even when the sorting is reversed.
  if (reverse) std::reverse(keyed.begin(), keyed.end());
  std::stable_sort(keyed.begin(), keyed.end(), less);
  if (reverse) std::reverse(keyed.begin(), keyed.end());
  List out;
  for (auto& [key, item] : keyed) out.push_back(std::move(item));
  return Value(std::move(out));
}

/// Returns the positional arguments without the first `count`. Drops the named arguments.
Arguments Rest(const Arguments& a, size_t count, Budget& budget) {
  Arguments rest;
  budget.MakeItems(a.positional.size());
  if (a.positional.size() > count)
    rest.positional.assign(a.positional.begin() + static_cast<ptrdiff_t>(count), a.positional.end());
  return rest;
}

}  // namespace

Value Select(const Value& input, const Arguments& a, bool by_attribute, bool keep, Budget& budget) {
  const size_t test_at = by_attribute ? 1 : 0;
  const Value* attribute = by_attribute ? a.Get(0, "attribute") : nullptr;
  if (by_attribute && attribute == nullptr) Fail("selectattr: which attribute?");
  const Value* test = a.Get(test_at, "test");
  const Arguments rest = Rest(a, test_at + 1, budget);
  List out;
  if (!input.Truthy()) return Value(std::move(out));
  for (const Value& item : Items(input, budget)) {
    const Value subject = AttributeOf(item, attribute, nullptr, budget);
    const bool passes =
        test != nullptr ? ApplyTest(TextOf(*test, "select").text, subject, rest, budget) : subject.Truthy();
    if (passes == keep) out.push_back(item);
  }
  return Value(std::move(out));
}

Value Map(const Value& input, const Arguments& a, Budget& budget) {
  const Budget::Level level(budget);  // the mapped filter may be map again
  List out;
  const Value* attribute = a.Get(SIZE_MAX, "attribute");
  const Value* filter = a.Get(0, "filter");
  if (attribute == nullptr && filter == nullptr) Fail("map: which attribute or filter?");
  if (!input.Truthy()) return Value(std::move(out));
  const Arguments rest = Rest(a, 1, budget);
  for (const Value& item : Items(input, budget)) {
    if (attribute != nullptr) {
      out.push_back(AttributeOf(item, attribute, a.Get(SIZE_MAX, "default"), budget));
    } else {
      out.push_back(ApplyFilter(TextOf(*filter, "map").text, item, rest, budget));
    }
  }
  return Value(std::move(out));
}

Value Sorted(const Value& input, const Arguments& a, Budget& budget) {
  return SortedItems(WithKeys(input, a.Get(2, "attribute"), a.Flag(1, "case_sensitive"), budget), a.Flag(0, "reverse"),
                     budget);
}

Value DictSorted(const Value& input, const Arguments& a, Budget& budget) {
  const std::string* by = a.Text(1, "by");
  if (by != nullptr && *by != "key" && *by != "value") Fail("dictsort: by \"key\" or by \"value\"");
  const Value place(int64_t{by != nullptr && *by == "value"});
  return SortedItems(WithKeys(DictItems(input, budget), &place, a.Flag(0, "case_sensitive"), budget),
                     a.Flag(2, "reverse"), budget);
}

Value Extreme(const Value& input, const Arguments& a, bool largest, Budget& budget) {
  const Keyed keyed = WithKeys(input, a.Get(1, "attribute"), a.Flag(0, "case_sensitive"), budget);
  const Keyed::value_type* found = nullptr;
  for (const auto& one : keyed) {
    if (found == nullptr ||
        (largest ? Value::Less(found->first, one.first, budget) : Value::Less(one.first, found->first, budget)))
      found = &one;
  }
  return found != nullptr ? found->second : Value(Undefined{largest ? "max" : "min"});
}

/// Finds repeated texts and numbers by lookup in a set. Compares other values one by one.
Value Unique(const Value& input, const Arguments& a, Budget& budget) {
  List out, others;
  std::set<std::string_view> texts;
  std::set<double> numbers;
  const Keyed keyed = WithKeys(input, a.Get(1, "attribute"), a.Flag(0, "case_sensitive"), budget);  // owns the texts
  for (const auto& [key, item] : keyed) {
    bool is_new = false;
    if (const MarkedText* text = key.AsText()) {
      budget.Scan(text->text.size() * 4);
      is_new = texts.insert(text->text).second;
    } else if (key.IsNumber()) {
      budget.Work(4);
      is_new = std::isnan(key.Number()) || numbers.insert(key.Number()).second;
    } else {
      is_new = std::ranges::none_of(others, [&](const Value& other) { return Value::Equal(other, key, budget); });
      if (is_new) others.push_back(key);
    }
    if (is_new) out.push_back(item);
  }
  budget.MakeItems(2 * out.size());
  return Value(std::move(out));
}

Value JoinItems(const Value& input, const Arguments& a, Budget& budget) {
  const Value* separator = a.Get(0, "d");
  const Value* attribute = a.Get(1, "attribute");
  List items = Items(input, budget);
  if (attribute != nullptr) {
    for (Value& item : items) item = AttributeOf(item, attribute, nullptr, budget);
  }
  return Value(Join(items, separator != nullptr ? *separator->ToText(budget) : MarkedText{}, budget));
}

Value Sum(const Value& input, const Arguments& a, Budget& budget) {
  const Value* start = a.Get(1, "start");
  const Value* attribute = a.Get(0, "attribute");
  Value sum = start != nullptr ? *start : Value(int64_t{0});
  for (const Value& item : Items(input, budget))
    sum = ApplyBinary("+", sum, AttributeOf(item, attribute, nullptr, budget), budget);
  return sum;
}

Value Batch(const Value& input, const Arguments& a, Budget& budget) {
  const int64_t count = a.Integer(0, "linecount", 0);
  if (count < 1) Fail("batch: how many items?");
  const Value* filler = a.Get(1, "fill_with");
  List out, batch;
  for (Value& item : Items(input, budget)) {
    batch.push_back(std::move(item));
    if (static_cast<int64_t>(batch.size()) < count) continue;
    budget.MakeItems(1);
    out.emplace_back(std::exchange(batch, {}));
  }
  if (!batch.empty()) {
    if (filler != nullptr && !filler->IsNone()) {
      budget.MakeItems(static_cast<size_t>(count));
      batch.resize(static_cast<size_t>(count), *filler);
    }
    out.emplace_back(std::move(batch));
  }
  return Value(std::move(out));
}

Value First(const Value& input, bool last, Budget& budget) {
  const List* list = input.AsList();
  const List items = list != nullptr ? List{} : Items(input, budget);
  const List& all = list != nullptr ? *list : items;
  if (all.empty()) return Value(Undefined{last ? "last" : "first"});
  return last ? all.back() : all.front();
}

Value Reversed(const Value& input, Budget& budget) {
  List items = Items(input, budget);
  std::reverse(items.begin(), items.end());
  return input.AsText() != nullptr ? Value(Join(items, {}, budget)) : Value(std::move(items));
}

}  // namespace quire::jinja

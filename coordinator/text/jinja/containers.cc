// Lists and mappings of templates: lookup, insertion, iteration, keys, the search for cycles, and destruction.
#include <iterator>
#include <set>

#include "comm/base/error.h"
#include "coordinator/text/jinja/builtins.h"
#include "coordinator/text/jinja/text_functions.h"

namespace quire::jinja {

namespace {
constexpr size_t kEntriesPerUnit = 8;  // entries compared per unit of work

std::optional<double> NumberOf(const Key& key) {
  if (const bool* b = std::get_if<bool>(&key)) return *b ? 1 : 0;
  if (const int64_t* i = std::get_if<int64_t>(&key)) return static_cast<double>(*i);
  if (const double* d = std::get_if<double>(&key)) return *d;
  return std::nullopt;
}

bool SameKey(const Key& a, const Key& b) {
  const auto *x = std::get_if<std::string>(&a), *y = std::get_if<std::string>(&b);
  if (x != nullptr || y != nullptr) return x != nullptr && y != nullptr && *x == *y;
  return NumberOf(a) == NumberOf(b);  // neither is a number: both keys are None
}

}  // namespace

const Value* Dict::Find(const std::string& key, Budget& budget) const {
  budget.Work(1 + entries.size() / kEntriesPerUnit);
  for (const auto& [name, value] : entries) {
    if (const auto* text = std::get_if<std::string>(&name); text != nullptr && *text == key) return &value;
  }
  return nullptr;
}

const Value* Dict::Find(const Key& key, Budget& budget) const {
  if (const auto* text = std::get_if<std::string>(&key)) return Find(*text, budget);
  budget.Work(1 + entries.size() / kEntriesPerUnit);
  for (const auto& [name, value] : entries) {
    if (SameKey(name, key)) return &value;
  }
  return nullptr;
}

void Dict::Set(Key key, Value value, Budget& budget) {
  budget.Work(1 + entries.size() / kEntriesPerUnit);
  for (auto& [name, old] : entries) {
    if (SameKey(name, key)) {
      old = std::move(value);
      return;
    }
  }
  const auto* text = std::get_if<std::string>(&key);
  budget.MakeItems(1);
  budget.MakeText(text != nullptr ? text->size() : 0);
  entries.emplace_back(std::move(key), std::move(value));
}

/// Moves the items of this value's list or mapping to `out`, if no other value shares it.
void Value::MoveChildrenTo(List& out) {
  const auto move_items = [&](auto& list) {
    if (list.use_count() != 1) return;
    std::move(list->begin(), list->end(), std::back_inserter(out));
    list->clear();
  };
  if (auto* list = std::get_if<std::shared_ptr<List>>(&data_)) {
    move_items(*list);
  } else if (auto* tuple = std::get_if<std::shared_ptr<Tuple>>(&data_)) {
    move_items(*tuple);
  } else if (auto* dict = std::get_if<std::shared_ptr<Dict>>(&data_); dict != nullptr && dict->use_count() == 1) {
    for (auto& [key, value] : (*dict)->entries) out.push_back(std::move(value));
    (*dict)->entries.clear();
  }
}

Value::~Value() {
  if (AsList() == nullptr && AsDict() == nullptr) return;
  List pending;
  MoveChildrenTo(pending);
  while (!pending.empty()) {
    Value last = std::move(pending.back());
    pending.pop_back();
    last.MoveChildrenTo(pending);
  }
}

bool Value::Reaches(const void* container, Budget& budget) const {
  std::vector<const Value*> pending = {this};
  std::set<const void*> seen;
  while (!pending.empty()) {
    const Value* value = pending.back();
    pending.pop_back();
    const List* list = value->AsList();
    const Dict* dict = value->AsDict();
    if (list == nullptr && dict == nullptr) continue;
    const void* place = list != nullptr ? static_cast<const void*>(list) : dict;
    if (place == container) return true;
    if (!seen.insert(place).second) continue;
    budget.Work(1 + (list != nullptr ? list->size() : dict->entries.size()));
    if (list != nullptr) {
      for (const Value& item : *list) pending.push_back(&item);
    } else {
      for (const auto& [key, item] : dict->entries) pending.push_back(&item);
    }
  }
  return false;
}

std::optional<Key> KeyOf(const Value& value) {
  if (const MarkedText* text = value.AsText()) return Key(text->text);
  if (const bool* b = value.As<bool>()) return Key(*b);
  if (const int64_t* i = value.As<int64_t>()) return Key(*i);
  if (const double* d = value.As<double>()) return Key(*d);
  if (value.IsNone()) return Key(None());
  return std::nullopt;
}

Value KeyValue(const Key& key, Budget& budget) {
  if (const auto* text = std::get_if<std::string>(&key)) {
    budget.MakeText(text->size());
    return Value(MarkedText(*text, MarkedText::kFromUser));
  }
  if (const bool* b = std::get_if<bool>(&key)) return Value(*b);
  if (const int64_t* i = std::get_if<int64_t>(&key)) return Value(*i);
  if (const double* d = std::get_if<double>(&key)) return Value(*d);
  return Value();
}

Value DictItems(const Value& value, Budget& budget) {
  if (value.AsDict() == nullptr) Fail("items: expected a mapping, got {}", value.TypeName());
  const auto& entries = value.AsDict()->entries;
  budget.MakeItems(3 * entries.size());
  List out;
  for (const auto& [key, item] : entries) out.emplace_back(Tuple{{KeyValue(key, budget), item}});
  return Value(std::move(out));
}

List Items(const Value& value, Budget& budget) {
  if (const List* list = value.AsList()) return budget.MakeItems(list->size()), *list;
  if (const MarkedText* text = value.AsText()) return Characters(*text, budget);
  if (value.IsUndefined()) return {};
  if (const Dict* dict = value.AsDict()) {
    budget.MakeItems(dict->entries.size());
    List keys;
    for (const auto& [key, item] : dict->entries) keys.push_back(KeyValue(key, budget));
    return keys;
  }
  Fail("{} is not iterable", value.TypeName());
}

}  // namespace quire::jinja

// Lists and mappings of templates: what they hold, and how they end.
#include <iterator>
#include <set>

#include "coordinator/text/jinja/value.h"

namespace quire::jinja {

namespace {
constexpr size_t kEntriesPerUnit = 8;  // that are compared
}  // namespace

const Value* Dict::Find(const std::string& key, Budget& budget) const {
  budget.Work(1 + entries.size() / kEntriesPerUnit);
  for (const auto& [name, value] : entries) {
    if (name == key) return &value;
  }
  return nullptr;
}

void Dict::Set(const std::string& key, Value value, Budget& budget) {
  budget.Work(1 + entries.size() / kEntriesPerUnit);
  for (auto& [name, old] : entries) {
    if (name == key) {
      old = std::move(value);
      return;
    }
  }
  budget.MakeItems(1);
  budget.MakeText(key.size());
  entries.emplace_back(key, std::move(value));
}

/// Only when nobody else has the container.
void Value::MoveChildrenTo(List& out) {
  if (auto* list = std::get_if<std::shared_ptr<List>>(&data_); list != nullptr && list->use_count() == 1) {
    std::move((*list)->begin(), (*list)->end(), std::back_inserter(out));
    (*list)->clear();
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

}  // namespace quire::jinja

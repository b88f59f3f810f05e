#include "comm/base/error.h"
#include "coordinator/text/jinja/builtins.h"

namespace quire::jinja {

const Value* Arguments::Get(size_t i, const char* name) const {
  if (i < positional.size()) return &positional[i];
  for (const auto& [key, value] : named) {
    if (key == name) return &value;
  }
  return nullptr;
}

const std::string* Arguments::Text(size_t i, const char* name) const {
  const Value* value = Get(i, name);
  return value == nullptr || value->IsNone() ? nullptr : &TextOf(*value, name).text;
}

int64_t Arguments::Integer(size_t i, const char* name, int64_t otherwise) const {
  const Value* value = Get(i, name);
  return value == nullptr || value->IsNone() ? otherwise : value->Integer(name);
}

bool Arguments::Flag(size_t i, const char* name, bool otherwise) const {
  const Value* value = Get(i, name);
  return value == nullptr ? otherwise : value->Truthy();
}

const MarkedText& TextOf(const Value& value, const char* what) {
  if (value.AsText() == nullptr) Fail("{}: expected a text, got {}", what, value.TypeName());
  return *value.AsText();
}

}  // namespace quire::jinja

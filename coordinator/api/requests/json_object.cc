#include "coordinator/api/requests/json_object.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "coordinator/http/api_error.h"

namespace quire {

namespace {

/// Returns the first name of a path such as "messages[2].content", for the error's `param`.
std::string FieldOf(const std::string& place) { return place.substr(0, place.find_first_of(".[")); }

[[noreturn]] void RefusePlace(const std::string& place, const std::string& reason) {
  throw ApiError(400, fmt::format("{} {}", place, reason), FieldOf(place));
}

constexpr size_t kShownName = 100;  // most bytes of a client's made-up name in an error

}  // namespace

JsonObject::JsonObject(const OrderedJson& value, std::string place) : value_(value), place_(std::move(place)) {
  if (!value_.is_object()) Refuse("must be an object");
}

const OrderedJson* JsonObject::Find(const char* name) const {
  const auto it = value_.find(name);
  return it == value_.end() || it->is_null() ? nullptr : &*it;
}

std::optional<std::string> JsonObject::OptionalText(const char* name) const {
  const OrderedJson* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) Refuse(name, "must be a string");
  return value->get<std::string>();
}

std::string JsonObject::Text(const char* name) const {
  std::optional<std::string> text = OptionalText(name);
  if (!text) Refuse(name, "is missing");
  return std::move(*text);
}

bool JsonObject::Flag(const char* name, bool otherwise) const {
  const OrderedJson* value = Find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) Refuse(name, "must be true or false");
  return value->get<bool>();
}

JsonObject JsonObject::Object(const char* name) const {
  const OrderedJson* value = Find(name);
  if (value == nullptr) Refuse(name, "is missing");
  return {*value, Place(name)};
}

void JsonObject::ForEach(const char* name, const std::function<void(const JsonObject&)>& take) const {
  const OrderedJson* list = Find(name);
  if (list == nullptr) Refuse(name, "is missing");
  if (!list->is_array()) Refuse(name, "must be a list");
  for (size_t i = 0; i < list->size(); ++i) take({(*list)[i], fmt::format("{}[{}]", Place(name), i)});
}

std::string JsonObject::JoinedText(const char* name,
                                   const std::function<std::string(const JsonObject&)>& text_of) const {
  const OrderedJson* value = Find(name);
  if (value != nullptr && value->is_string()) return value->get<std::string>();
  std::string text;
  ForEach(name, [&](const JsonObject& part) { text += text_of(part); });
  return text;
}

void JsonObject::KnowOnly(std::initializer_list<std::string_view> names) const {
  for (const auto& [name, value] : value_.items()) {
    if (!value.is_null() && std::ranges::find(names, name) == names.end())
      Refuse(name.substr(0, kShownName), "is not supported by this server; leave it out");
  }
}

std::string JsonObject::Place(std::string_view name) const {
  return place_.empty() ? std::string(name) : fmt::format("{}.{}", place_, name);
}

void JsonObject::Refuse(std::string_view name, const std::string& reason) const { RefusePlace(Place(name), reason); }

void JsonObject::Refuse(const std::string& reason) const { RefusePlace(place_.empty() ? "the body" : place_, reason); }

}  // namespace quire

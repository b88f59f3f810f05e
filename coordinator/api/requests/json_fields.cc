#include "coordinator/api/requests/json_fields.h"

#include <fmt/format.h>

#include <cmath>

namespace quire {

JsonFields::JsonFields(const Json& body) : body_(body) {
  if (!body.is_object()) throw ApiError(400, "the body must be a JSON object");
}

std::optional<int64_t> JsonFields::WholeNumber(const Json& value) {
  constexpr double kExact = 1LL << 53;  // larger doubles cannot hold every integer
  if (value.is_number_float()) {
    const auto number = value.get<double>();
    if (std::abs(number) > kExact || number != std::trunc(number)) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX))
    return std::nullopt;
  return value.get<int64_t>();
}

void JsonFields::Refuse(const char* name, const std::string& reason) {
  throw ApiError(400, fmt::format("{} {}", name, reason), name);
}

const Json* JsonFields::Find(const char* name) const {
  const auto it = body_.find(name);
  return it == body_.end() || it->is_null() ? nullptr : &*it;
}

std::optional<int64_t> JsonFields::Integer(const char* name, int64_t low, int64_t high) const {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  const std::optional<int64_t> integer = WholeNumber(*value);
  if (!integer || *integer < low || *integer > high)
    Refuse(name, fmt::format("must be an integer from {} to {}", low, high));
  return integer;
}

std::optional<double> JsonFields::Number(const char* name, double low, double high) const {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !(value->get<double>() >= low && value->get<double>() <= high)) {
    Refuse(name, fmt::format("must be a number from {} to {}", low, high));
  }
  return value->get<double>();
}

bool JsonFields::Flag(const char* name, bool otherwise) const {
  const Json* value = Find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) Refuse(name, "must be true or false");
  return value->get<bool>();
}

std::optional<std::string> JsonFields::Text(const char* name) const {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) Refuse(name, "must be a string");
  return value->get<std::string>();
}

std::vector<std::string> JsonFields::Texts(const char* name, size_t max_count, size_t max_bytes) const {
  const Json* value = Find(name);
  if (value == nullptr) return {};
  std::vector<std::string> texts;
  const Json list = value->is_array() ? *value : Json::array({*value});
  if (list.size() > max_count) Refuse(name, fmt::format("takes at most {} strings", max_count));
  for (const Json& item : list) {
    if (!item.is_string() || item.get_ref<const std::string&>().empty() ||
        item.get_ref<const std::string&>().size() > max_bytes) {
      Refuse(name, fmt::format("must be strings of 1 to {} bytes", max_bytes));
    }
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

}  // namespace quire

#include "coordinator/text/answers/cut_value.h"

#include "coordinator/text/answers/json_scanner.h"
#include "coordinator/text/answers/typed_values.h"

namespace quire {

std::string CutValue(const Tool& tool, const std::string& parameter, std::string_view text) {
  const auto value_of = [&](std::string_view whole) { return TypedValue(tool, parameter, whole); };
  const auto open = [](std::string string) {
    string.pop_back();
    return string;
  };
  // If the text 1 becomes a JSON string and not a number, the parameter is a string.
  if (value_of("1") == "\"1\"") {
    const bool may_be_null = value_of("null") == "null" && std::string_view("null").starts_with(text);
    return may_be_null ? "" : open(JsonString(text));
  }
  const size_t first = text.find_first_not_of(kJsonSpace);
  if (first == std::string_view::npos) return "";
  if (std::string_view("{[-0123456789\"").find(text[first]) != std::string_view::npos)
    return std::string(text.substr(first));
  const bool is_typed = value_of("None") == "null";
  return is_typed ? "" : open(JsonString(text));
}

}  // namespace quire

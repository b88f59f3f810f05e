#include "coordinator/text/answers/call_arguments.h"

#include "coordinator/text/answers/json_scanner.h"

namespace quire {

std::string ObjectOfArguments(std::string_view arguments) {
  const size_t first = arguments.find_first_not_of(kJsonSpace);
  if (first == std::string_view::npos) return "{}";
  if (arguments.substr(first, arguments.find_last_not_of(kJsonSpace) + 1 - first) == "null") return "{}";
  if (IsJsonObject(arguments)) return std::string(arguments);
  return "{\"INVALID_JSON\": " + JsonString(arguments) + "}";
}

}  // namespace quire

#include "coordinator/api/requests/responses_fields.h"

#include <iterator>

#include "coordinator/api/requests/passed_fields.h"

namespace quire {

namespace {

// Fields of requests of the Responses API. docs/fields.md lists them for users.

/// Fields that are ignored: this server has one class of service and no tools of its own, and caches by itself.
constexpr std::string_view kHarmless[] = {"metadata",         "user",
                                          "service_tier",     "safety_identifier",
                                          "prompt_cache_key", "prompt_cache_retention",
                                          "max_tool_calls",   "prompt_cache_options",
                                          "client_metadata"};
constexpr std::string_view kTranslated[] = {
    "input", "instructions", "max_output_tokens", "previous_response_id", "reasoning", "store",
    "text",  "tools",        "tool_choice",       "parallel_tool_calls",  "stop",      "include", "thinking"};

constexpr std::string_view kOffOnly[] = {"background", "truncation", "top_logprobs", "stream_options",
                                         "context_management"};

}  // namespace

bool AsksForNothing(std::string_view name, const OrderedJson& value) {
  if (name == "background") return value == false;
  // An input that fits is used in full, and an input that does not fit is refused: nothing is truncated silently.
  if (name == "truncation") return value == "disabled" || value == "auto";
  if (name == "top_logprobs") return value == 0;
  // include_obfuscation asks to pad the events of a stream, so that their lengths reveal nothing. Either value is
  // accepted and ignored: this server never pads events.
  if (name == "stream_options")
    return value.empty() || (value.is_object() && value.size() == 1 && value.contains("include_obfuscation") &&
                             value["include_obfuscation"].is_boolean());
  if (name == "context_management") return value == OrderedJson::array();
  return false;
}

bool IsReadByResponses(std::string_view name) {
  return IsPassedOn(name) || IsIn(name, kHarmless) || IsIn(name, kTranslated);
}

std::vector<std::string_view> ResponsesFieldNames() {
  std::vector<std::string_view> names = PassedOnNames();
  names.insert(names.end(), std::begin(kTranslated), std::end(kTranslated));
  names.insert(names.end(), std::begin(kHarmless), std::end(kHarmless));
  names.insert(names.end(), std::begin(kOffOnly), std::end(kOffOnly));
  return names;
}

}  // namespace quire

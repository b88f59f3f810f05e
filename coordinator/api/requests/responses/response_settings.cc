#include "coordinator/api/requests/responses/response_settings.h"

#include <fmt/format.h>

#include <utility>

#include "comm/base/exact_json.h"

namespace quire {

namespace {

// OpenAI's limits for these fields.
constexpr size_t kMostLabelBytes = 512, kMostMetadata = 16, kMostMetadataNameBytes = 64;

void CheckLabel(const JsonObject& holder, const char* name, size_t bytes) {
  if (bytes > kMostLabelBytes) holder.Refuse(name, fmt::format("takes at most {} bytes", kMostLabelBytes));
}

}  // namespace

void CheckRepeated(const JsonObject& body) {
  for (const char* name : {"user", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"})
    CheckLabel(body, name, body.OptionalText(name).value_or("").size());
  (void)body.Flag("parallel_tool_calls", true);
  if (body.Has("client_metadata")) (void)body.Object("client_metadata");
  const OrderedJson* most = body.Find("max_tool_calls");
  if (most != nullptr && !most->is_number_integer()) body.Refuse("max_tool_calls", "must be an integer");
  if (!body.Has("metadata")) return;
  const JsonObject metadata = body.Object("metadata");
  if (metadata.value().size() > kMostMetadata)
    body.Refuse("metadata", fmt::format("takes at most {} members", kMostMetadata));
  for (const auto& [name, value] : metadata.value().items()) {
    const std::string shown = name.substr(0, 100);
    if (name.size() > kMostMetadataNameBytes)
      metadata.Refuse(shown, fmt::format("is a name of more than {} bytes", kMostMetadataNameBytes));
    if (!value.is_string()) metadata.Refuse(shown, "must be a string");
    CheckLabel(metadata, shown.c_str(), value.get_ref<const std::string&>().size());
  }
}

std::string SettingsOf(const JsonObject& body, const SamplingDefaults& defaults) {
  const Json draws = JsonOf(defaults);
  const std::pair<const char*, OrderedJson> shown[] = {{"background", false},
                                                       {"instructions", nullptr},
                                                       {"max_output_tokens", nullptr},
                                                       {"max_tool_calls", nullptr},
                                                       {"metadata", OrderedJson::object()},
                                                       {"parallel_tool_calls", true},
                                                       {"previous_response_id", nullptr},
                                                       {"prompt_cache_key", nullptr},
                                                       {"reasoning", {{"effort", nullptr}, {"summary", nullptr}}},
                                                       {"safety_identifier", nullptr},
                                                       {"temperature", draws["temperature"].get<double>()},
                                                       {"text", {{"format", {{"type", "text"}}}}},
                                                       {"tool_choice", "auto"},
                                                       {"tools", OrderedJson::array()},
                                                       {"top_logprobs", 0},
                                                       {"top_p", draws["top_p"].get<double>()},
                                                       {"truncation", "disabled"},
                                                       {"user", nullptr}};
  OrderedJson settings = {{"service_tier", "default"}};
  for (const auto& [name, otherwise] : shown) {
    const OrderedJson* given = body.Find(name);
    settings[name] = given != nullptr ? *given : otherwise;
  }
  const std::string text = DumpExactJson(settings);
  return text.substr(1, text.size() - 2);
}

}  // namespace quire

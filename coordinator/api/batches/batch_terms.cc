#include "coordinator/api/batches/batch_terms.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "comm/base/error.h"
#include "coordinator/api/requests/json_fields.h"

namespace quire {

namespace {

constexpr std::array kFields = {"input_file_id", "endpoint", "completion_window", "metadata", "output_expires_after"};
constexpr std::array kEndpoints = {"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses"};
constexpr int64_t kLongestWindow = 30 * 24 * 3600;  // most seconds of a completion_window

Json ParsedBody(const std::string& body) {
  try {
    return ParseJson(body, "the body", kClientJson);
  } catch (const Error& error) {
    throw ApiError(400, error.what());
  }
}

std::string Required(const JsonFields& fields, const char* name) {
  std::optional<std::string> text = fields.Text(name);
  if (!text) JsonFields::Refuse(name, "is missing");
  return *text;
}

/// Returns the seconds of a text such as "24h". Throws ApiError for another text, and for times outside of the allowed
/// range.
int64_t SecondsOf(const std::string& window) {
  constexpr size_t kLongest = 8;  // "2592000s"
  int64_t count = 0;
  const auto [end, error] = std::from_chars(window.data(), window.data() + window.size(), count);
  const bool one_letter = error == std::errc() && end + 1 == window.data() + window.size();
  const int64_t unit = !one_letter   ? 0
                       : *end == 's' ? 1
                       : *end == 'm' ? 60
                       : *end == 'h' ? 3600
                       : *end == 'd' ? 86'400
                                     : 0;
  if (window.size() > kLongest || unit == 0 || count < 1 || count > kLongestWindow / unit)
    JsonFields::Refuse("completion_window", "must be a time such as \"24h\", from \"1s\" to \"30d\"");
  return count * unit;
}

Json CheckedMetadata(const Json* metadata) {
  constexpr size_t kMembers = 16, kNameBytes = 64, kTextBytes = 512;
  if (metadata == nullptr) return nullptr;
  const auto is_fine = [&](const auto& entry) {
    return entry.key().size() <= kNameBytes && entry.value().is_string() &&
           entry.value().template get_ref<const std::string&>().size() <= kTextBytes;
  };
  bool fine = metadata->is_object() && metadata->size() <= kMembers;
  for (auto it = metadata->begin(); fine && it != metadata->end(); ++it) fine = is_fine(it);
  if (!fine) {
    JsonFields::Refuse("metadata",
                       "must be an object of at most 16 texts of up to 512 bytes, with names of up to 64 bytes");
  }
  return *metadata;
}

int64_t OutputSeconds(const Json* expires_after) {
  if (expires_after == nullptr) return 0;
  const bool whole = expires_after->is_object() && expires_after->value("anchor", Json()) == "created_at" &&
                     expires_after->contains("seconds") && (*expires_after)["seconds"].is_number_integer() &&
                     expires_after->size() == 2;
  const int64_t seconds = whole ? (*expires_after)["seconds"].get<int64_t>() : 0;
  if (seconds < kLeastKeptSeconds || seconds > kMostKeptSeconds) {
    JsonFields::Refuse("output_expires_after",
                       R"(must be {"anchor": "created_at", "seconds": N}, with 3600 to 2592000 seconds)");
  }
  return seconds;
}

}  // namespace

BatchTerms ReadBatchTerms(const std::string& body) {
  const Json json = ParsedBody(body);
  const JsonFields fields(json);
  for (auto it = json.begin(); it != json.end(); ++it) {
    if (std::ranges::find(kFields, it.key()) == kFields.end())
      throw ApiError(400, fmt::format("the field {} is not known here", it.key().substr(0, 100)),
                     it.key().substr(0, 100));
  }
  BatchTerms terms{.endpoint = Required(fields, "endpoint"),
                   .input_file_id = Required(fields, "input_file_id"),
                   .completion_window = Required(fields, "completion_window")};
  if (std::ranges::find(kEndpoints, terms.endpoint) == kEndpoints.end())
    JsonFields::Refuse("endpoint", fmt::format("must be one of {}", fmt::join(kEndpoints, ", ")));
  terms.window_seconds = SecondsOf(terms.completion_window);
  terms.metadata = CheckedMetadata(fields.Find("metadata"));
  terms.output_seconds = OutputSeconds(fields.Find("output_expires_after"));
  return terms;
}

}  // namespace quire

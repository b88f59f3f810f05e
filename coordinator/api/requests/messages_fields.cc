#include "coordinator/api/requests/messages_fields.h"

#include <iterator>

#include "coordinator/api/requests/passed_fields.h"

namespace quire {

namespace {

// Fields of requests of the Messages API. docs/messages.md lists them for users.

/// Fields that are ignored: this server has one class of service and one location, sends no bills, never refuses an
/// answer (so fallback models have no use), and caches by itself.
constexpr std::string_view kPassedOverHere[] = {
    "metadata",  "service_tier",          "cache_control",  "user_profile_id", "inference_geo",     "speed",
    "fallbacks", "fallback_credit_token", "billing_policy", "diagnostics",     "anthropic_version", "anthropic_beta"};

constexpr std::string_view kReadHere[] = {
    "messages",      "system",   "max_tokens",  "stop_sequences", "tools",      "tool_choice", "output_config",
    "output_format", "thinking", "mcp_servers", "container",      "compaction", "thread",      "context_management"};

}  // namespace

std::vector<std::string_view> MessagesFieldNames() {
  std::vector<std::string_view> names = PassedOnNames();
  names.insert(names.end(), std::begin(kPassedOverHere), std::end(kPassedOverHere));
  names.insert(names.end(), std::begin(kReadHere), std::end(kReadHere));
  return names;
}

}  // namespace quire

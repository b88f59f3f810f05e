#pragma once

#include <string>

#include "coordinator/api/requests/json_object.h"
#include "coordinator/api/requests/openai_request.h"

// What an answer of /v1/responses says of its request.
namespace quire {

/// Refuses what changes nothing and is repeated only, where clients could not read it or it is longer than OpenAI
/// takes.
void CheckRepeated(const JsonObject& body);

/// The settings, whether they were given or not, as members of a JSON object without its braces. defaults: what a
/// request draws with that says nothing.
std::string SettingsOf(const JsonObject& body, const SamplingDefaults& defaults);

}  // namespace quire

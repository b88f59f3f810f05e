#pragma once

#include <string>

#include "coordinator/api/requests/json_object.h"
#include "coordinator/api/requests/openai_request.h"

// The parts of an answer of /v1/responses that repeat its request.
namespace quire {

/// Checks fields that the answer repeats without further use, such as `user` and `metadata`. Throws ApiError for a
/// wrong type, and for a text or metadata beyond OpenAI's limits.
void CheckRepeated(const JsonObject& body);

/// Returns the request's settings, including defaults, as members of a JSON object without its braces. `defaults`: the
/// values of sampling settings that the request does not set.
std::string SettingsOf(const JsonObject& body, const SamplingDefaults& defaults);

}  // namespace quire

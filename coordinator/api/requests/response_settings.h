#pragma once

#include <string>

#include "coordinator/api/requests/json_object.h"

// What an answer of /v1/responses says of its request.
namespace quire {

/// Refuses what changes nothing and is repeated only, where clients could not read it or it is longer than OpenAI
/// takes.
void CheckRepeated(const JsonObject& body);

/// The settings, whether they were given or not, as members of a JSON object without its braces.
std::string SettingsOf(const JsonObject& body);

}  // namespace quire

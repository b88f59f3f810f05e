#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "comm/base/json.h"
#include "coordinator/api/requests/json_object.h"

// Fields that Messages and Responses requests share with chat requests.
namespace quire {

/// True for a field that Messages and Responses requests copy to the chat request: a field of their own API, or an
/// extension of this server.
bool IsPassedOn(std::string_view name);
/// Returns the names of the fields for which IsPassedOn() is true.
std::vector<std::string_view> PassedOnNames();

/// True when `names` contains `name`.
bool IsIn(std::string_view name, const auto& names) { return std::ranges::find(names, name) != std::end(names); }

/// Throws ApiError if the field `name` is a number below 1, because an answer must have tokens.
void RefuseNoTokens(const JsonObject& body, const char* name);

/// Copies the fields of PassedOnNames(), where present, from `body` to `chat`.
void PassOn(const JsonObject& body, OrderedJson& chat);

}  // namespace quire

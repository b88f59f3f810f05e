#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "comm/base/json.h"
#include "coordinator/api/requests/json_object.h"

// Settings that the other APIs' requests have under the same names as chat requests.
namespace quire {

/// Whether a setting means the same in requests of OpenAI's Responses and Anthropic's Messages, of the field itself or
/// as one of ours that they do not know.
bool IsPassedOn(std::string_view name);
/// The names of all of them.
std::vector<std::string_view> PassedOnNames();

/// Whether a list of names has this one.
bool IsIn(std::string_view name, const auto& names) { return std::ranges::find(names, name) != std::end(names); }

/// Copies those that the body has.
void PassOn(const JsonObject& body, OrderedJson& chat);

}  // namespace quire

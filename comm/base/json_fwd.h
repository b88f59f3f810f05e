#pragma once

#include <nlohmann/json_fwd.hpp>

namespace quire {

// Forward declarations for headers that only name the JSON types. Including the whole library costs about a second of
// compile time for each source file.

using Json = nlohmann::json;
/// Like Json, but members keep the order of the text. Looking up a member takes time linear in the number of members.
using OrderedJson = nlohmann::ordered_json;

}  // namespace quire

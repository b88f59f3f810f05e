#pragma once

#include <nlohmann/json_fwd.hpp>

namespace quire {

// For headers that only name the types in declarations: reading the whole library costs a second for each source that
// does.

using Json = nlohmann::json;
/// The same with members in the order that they were written in; finding one takes time in proportion to their number.
using OrderedJson = nlohmann::ordered_json;

}  // namespace quire

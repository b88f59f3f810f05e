#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "comm/base/json_fwd.h"

namespace quire {

struct JsonLimits {
  size_t max_depth = 32;
  size_t max_nodes = 20000;       // values and keys together
  size_t max_members = SIZE_MAX;  // members of one object
};

/// Parses JSON strictly: valid UTF-8, no duplicate keys, nothing after the value, numbers within double's range,
/// nesting and size within `limits`. Throws Error; its text begins with `what` and, for a syntax error, gives the byte
/// at which it is.
Json ParseJson(std::string_view text, std::string_view what, const JsonLimits& limits = {});

/// Returns the JSON as text without white space. Bytes that are not UTF-8 become U+FFFD, so DumpJson never throws for
/// them.
std::string DumpJson(const Json& json);

}  // namespace quire

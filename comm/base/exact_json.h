#pragma once

#include <string>
#include <string_view>

#include "comm/base/json_fwd.h"

namespace quire {

// JSON in which integers keep their value, however large they are. The tree stores an integer that fits neither int64_t
// nor uint64_t as a binary value. The bytes of this value are the integer's digits, after a "-" if it is negative.
// Parsing JSON text makes no other binary values.

/// Parses a text that ParseJson has accepted. Members keep their order.
OrderedJson ParseExactJson(std::string_view text);

/// Returns the JSON as text without white space. Integers stored as binary values are written as numbers; bytes that
/// are not UTF-8 become U+FFFD.
std::string DumpExactJson(const OrderedJson& json);

/// Returns the sign and digits of an integer that is stored as a binary value, or "" for every other value.
std::string LongInteger(const OrderedJson& json);

}  // namespace quire

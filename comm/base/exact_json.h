#pragma once

#include <string>
#include <string_view>

#include "comm/base/json_fwd.h"

namespace quire {

// JSON whose integers keep their value, however large. One that neither int64_t nor uint64_t holds stands in the tree
// as a binary value, whose bytes are the number's digits with their sign; a text of JSON has no other binary values.

/// Of a text that ParseJson takes; members keep their order.
OrderedJson ParseExactJson(std::string_view text);

/// Compact text, in which such integers are written as numbers. Bytes that are not UTF-8 become U+FFFD.
std::string DumpExactJson(const OrderedJson& json);

/// The digits of such an integer; empty: the value is another one.
std::string LongInteger(const OrderedJson& json);

}  // namespace quire

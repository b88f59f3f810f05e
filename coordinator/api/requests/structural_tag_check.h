#pragma once

#include <string>

#include "comm/base/json_fwd.h"

namespace quire {

/// Returns the reason (path and problem) why this structural tag cannot be enforced exactly; empty when it can. The tag
/// is `{"type": "structural_tag", "format": {...}}`, as xgrammar 0.2.8 defines it. Each format must name its kind and
/// have only members of that kind. Formats nest at most 32 deep, counts are at most 128, and schemas inside must be
/// exactly enforceable. The time is linear in the tag's size.
std::string WhyTagNotKept(const OrderedJson& tag);

}  // namespace quire

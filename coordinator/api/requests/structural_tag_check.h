#pragma once

#include <string>

#include "comm/base/json_fwd.h"

namespace quire {

/// Returns the reason why this structural tag (`{"type": "structural_tag", "format": {...}}`, as xgrammar 0.2.8 defines
/// it) cannot be enforced exactly: the place and the problem; empty: it can. Each format must name its kind and have
/// only members of that kind. Formats nest at most 32 deep, counts have the limits of schemas, and schemas inside must
/// be exactly enforceable. The time is linear in the tag.
std::string WhyTagNotKept(const OrderedJson& tag);

}  // namespace quire

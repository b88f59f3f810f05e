#pragma once

#include <string>

#include "comm/base/json_fwd.h"

namespace quire {

/// Why answers cannot be kept to exactly what this structural tag says (`{"type": "structural_tag", "format": {...}}`,
/// as xgrammar 0.2.8 describes them): the place, and what is wrong there; empty when they can. Every format names its
/// kind and has that kind's members alone, formats are nested 32 deep at the most, counts are those of schemas, and
/// schemas inside are kept to like others. Takes time in proportion to the tag.
std::string WhyTagNotKept(const OrderedJson& tag);

}  // namespace quire

#pragma once

#include <cstdint>
#include <string>

#include "comm/base/json_fwd.h"

namespace quire {

/// Most characters or items. Beyond, xgrammar 0.2.8 takes 10 to 20 ms for every mask of a large vocabulary, instead of
/// microseconds.
inline constexpr int64_t kMostRepetitions = 128;

/// Why answers cannot be kept to exactly what this JSON schema says: the keyword, and where it stands; empty when they
/// can. Keywords that say nothing about a value (title, description, default ...) are passed over, all others are
/// either known to be kept to or named here.
std::string WhyNotKept(const OrderedJson& schema);

/// The same schema with lengths of texts as patterns: xgrammar 0.2.8 lets control characters into texts of bounded
/// length, which JSON does not. Texts of such a schema are spelled without escapes, and a length counts their
/// characters. For a schema that can be kept to.
OrderedJson WithoutLengths(OrderedJson schema);

}  // namespace quire

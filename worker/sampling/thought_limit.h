#pragma once

#include <optional>
#include <span>

#include "comm/wire/step_plan.h"

namespace quire {

/// Tokens, spaces say, that may stand before what opens thoughts.
inline constexpr size_t kMostBeforeThoughts = 4;

/// The one token that may follow `generated`, where thoughts that have reached their limit are being ended
/// (PROTOCOL.md, Thoughts are cut). Takes time in proportion to the limit.
std::optional<TokenId> TokenThatEndsThoughts(const ThoughtLimit& limit, std::span<const TokenId> generated);

}  // namespace quire

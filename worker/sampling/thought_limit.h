#pragma once

#include <optional>
#include <span>

#include "comm/wire/step_plan.h"

namespace quire {

/// The most tokens (spaces, for example) that may precede the opening of the model's reasoning text ("thoughts").
inline constexpr size_t kMostBeforeThoughts = 4;

/// Returns the only token that may follow `generated` while thoughts beyond their limit are being closed; nullopt if
/// any token may follow (PROTOCOL.md, Thoughts are cut). Takes time proportional to the limit.
std::optional<TokenId> TokenThatEndsThoughts(const ThoughtLimit& limit, std::span<const TokenId> generated);

}  // namespace quire

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "worker/engine/sequence_table.h"

namespace quire {

/// Returns how many of each member's tokens remain after verification: all but wrong drafts. A sequence's recurrent
/// state must then be the state after exactly these tokens. `verified`: the tokens of the batch
/// (SequenceTable::KeepVerified).
std::vector<int32_t> RemainingRows(const std::vector<BatchMember>& batch, std::span<const SampledToken> verified);

}  // namespace quire

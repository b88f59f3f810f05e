#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "worker/engine/sequence_table.h"

namespace quire {

/// Returns how many of each member's tokens remain after verification: all but wrong drafts. A recurrent state must then
/// be the one after these tokens. `verified`: the tokens of the batch (SequenceTable::KeepVerified).
inline std::vector<int32_t> RemainingRows(const std::vector<BatchMember>& batch,
                                          std::span<const SampledToken> verified) {
  std::vector<int32_t> rows;
  for (const BatchMember& member : batch) {
    const auto drawn = static_cast<size_t>(member.num_rows());
    const size_t kept = TakeDrawn(verified, member.slot, drawn).size();
    rows.push_back(member.count - static_cast<int32_t>(drawn - kept));
  }
  return rows;
}

}  // namespace quire

#include "worker/engine/remaining_rows.h"

namespace quire {

std::vector<int32_t> RemainingRows(const std::vector<BatchMember>& batch, std::span<const SampledToken> verified) {
  std::vector<int32_t> rows;
  for (const BatchMember& member : batch) {
    const auto drawn = static_cast<size_t>(member.num_rows());
    const size_t kept = TakeDrawn(verified, member.slot, drawn).size();
    rows.push_back(member.count - static_cast<int32_t>(drawn - kept));
  }
  return rows;
}

}  // namespace quire

#pragma once

#include <algorithm>
#include <cstdint>

#include "comm/topology/topology.h"

namespace quire {

/// Returns the most bytes that requests may hold in the coordinator. If the operator has set no other number than the
/// default, the result is at most an eighth of `total`, the bytes that the coordinator's host or control group allows,
/// but at least Limits::kLeastMemory. total: 0 or less: unknown.
inline int64_t MemoryOfRequests(const Topology::Limits& limits, int64_t total) {
  const int64_t usual = Topology::Limits{}.memory_bytes;
  if (limits.memory_bytes != usual || total <= 0) return limits.memory_bytes;
  return std::clamp(total / 8, Topology::Limits::kLeastMemory, usual);
}

}  // namespace quire

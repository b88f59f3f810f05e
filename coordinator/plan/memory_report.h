#pragma once

#include <string>

#include "comm/base/json.h"
#include "coordinator/cluster/hosts/memory_plan.h"

namespace quire {

/// Describes the memory of a planned rank: weights, KV cache, swap space, what its process takes beside them, and their
/// sum.
std::string MemoryText(const MemoryPlan& plan, const RankInfo& rank);
Json MemoryJson(const MemoryPlan& plan, const RankInfo& rank);

}  // namespace quire

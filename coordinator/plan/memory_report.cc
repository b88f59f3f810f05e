#include "coordinator/plan/memory_report.h"

#include <fmt/format.h>

#include <cstdint>

#include "coordinator/plan/size_text.h"

namespace quire {

namespace {

int64_t KvBytes(const MemoryPlan& plan, const RankInfo& rank) { return rank.bytes_per_block * plan.pools.num_blocks; }

int64_t SwapBytes(const MemoryPlan& plan, const RankInfo& rank) {
  return plan.pools.num_host_blocks > 0 ? rank.bytes_per_block * (plan.pools.num_host_blocks + 1) : 0;
}

int64_t TotalBytes(const MemoryPlan& plan, const RankInfo& rank) {
  return rank.weight_bytes + KvBytes(plan, rank) + SwapBytes(plan, rank) + rank.working.total();
}

}  // namespace

std::string MemoryText(const MemoryPlan& plan, const RankInfo& rank) {
  std::string text = fmt::format("{} of weights + {} of KV cache", Size(rank.weight_bytes), Size(KvBytes(plan, rank)));
  if (const int64_t swap = SwapBytes(plan, rank); swap > 0) text += fmt::format(" + {} of swap space", Size(swap));
  const WorkingMemory& working = rank.working;
  if (working.total() > 0) {  // not known of GPUs' workers
    text += fmt::format(" + {} beside them (process {}, steps {}, pages of files {})", Size(working.total()),
                        Size(working.process_bytes), Size(working.step_bytes), Size(working.file_bytes));
  }
  return fmt::format("{} = {}", text, Size(TotalBytes(plan, rank)));
}

Json MemoryJson(const MemoryPlan& plan, const RankInfo& rank) {
  return {{"weight_bytes", rank.weight_bytes},
          {"block_bytes", rank.bytes_per_block},
          {"state_bytes", rank.bytes_per_state},
          {"kv_bytes", KvBytes(plan, rank)},
          {"swap_bytes", SwapBytes(plan, rank)},
          {"process_bytes", rank.working.process_bytes},
          {"step_bytes", rank.working.step_bytes},
          {"file_bytes", rank.working.file_bytes},
          {"total_bytes", TotalBytes(plan, rank)}};
}

}  // namespace quire

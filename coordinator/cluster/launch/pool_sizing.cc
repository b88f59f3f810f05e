#include "coordinator/cluster/launch/pool_sizing.h"

#include <algorithm>
#include <map>

#include "comm/base/error.h"
#include "comm/base/host_name.h"
#include "comm/topology/request_memory.h"
#include "coordinator/cluster/launch/grammar_sizing.h"
#include "coordinator/cluster/launch/host_fit.h"
#include "coordinator/cluster/launch/rank_hosts.h"

namespace quire {

namespace {

// The most tokens of a step, by default. Longer steps would delay sequences that decode.
constexpr int kCpuStepTokens = 512, kCudaStepTokens = 2048;
// The most bytes of KV memory of a CPU worker, by default, so that a server does not fill a laptop's memory. There is
// no such limit on GPUs.
constexpr int64_t kDefaultCpuKvBytes = int64_t{4} << 30;
// A plan names every block of each added state; more blocks would make that list longer than a long block table.
constexpr int64_t kMostStateBlocks = 4096;

/// Returns the part of a remedy that names the settings which leave less memory to the KV cache; empty when there are
/// none.
std::string RemedyOfShares(int64_t swap, int64_t adapters) {
  if (swap > 0 && adapters > 0) return "lower --swap-space or --lora-memory, ";
  if (swap > 0) return "lower --swap-space, ";
  return adapters > 0 ? "lower --lora-memory, " : "";
}

/// Returns the bytes that requests may hold on the rank's host, where the coordinator runs, too; 0 on other hosts.
int64_t RequestsBeside(const Topology& topology, const RankInfo& rank) {
  const bool is_here = rank.host == OwnHostName() && rank.memory_limit != kGivenMemory;
  return is_here ? MemoryOfRequests(topology.limits, rank.memory_bytes) : 0;
}

/// Returns the number of blocks, the null block included.
int ChooseNumBlocks(const Topology& topology, BackendKind backend, const std::vector<RankInfo>& ranks,
                    const PoolDemand& demand) {
  const bool cuda = backend == BackendKind::kCuda;
  if (topology.cache.num_blocks > 0) return topology.cache.num_blocks + 1;
  // The CPU ranks of a host share its memory; each GPU rank reports the memory of its own GPU.
  std::map<std::string, int> sharers = RanksOfAllReplicas(topology, ranks);
  const int64_t swap = cuda ? 0 : topology.cache.host_swap_bytes;  // on CPUs, swapped blocks use the same memory
  const int64_t adapters = topology.lora.dirs.empty() ? 0 : topology.lora.memory_bytes;  // loaded later
  // `ever`: the bytes that would be available if nothing else were in the hosts' memory.
  int64_t per_block = 0, available = INT64_MAX, ever = INT64_MAX;
  for (const RankInfo& rank : ranks) {
    per_block = std::max(per_block, rank.bytes_per_block);
    const auto part_of = [&](int64_t bytes) {
      const int64_t part = cuda ? bytes : (bytes - RequestsBeside(topology, rank)) / sharers[rank.host];
      return part - swap - adapters - rank.working.of_steps();
    };
    available = std::min(available, part_of(rank.available_bytes));
    if (!cuda && rank.memory_bytes > 0) ever = std::min(ever, part_of(rank.memory_bytes));
  }
  int64_t budget = topology.cache.memory_bytes;
  if (budget == 0) {
    const auto usable = [&](int64_t bytes) {
      return static_cast<int64_t>(topology.cache.memory * static_cast<double>(bytes));
    };
    // Grammars are compiled later. Where their memory would leave no room for a block, the cache takes it.
    const int64_t grammars = ever == INT64_MAX ? 0 : GrammarMemoryOf(topology, ranks).total();
    budget = usable(available - grammars);
    if (budget < (2 + StateBlocks(ranks)) * per_block) budget = usable(available);
    if (!cuda) budget = std::min(std::max(kDefaultCpuKvBytes, demand.blocks_needed * per_block), budget);
  }
  const int64_t most_useful = int64_t{topology.scheduler.max_running} *
                              ((demand.max_model_len - 1) / topology.cache.block_size + 1 + StateBlocks(ranks));
  const int64_t blocks = std::min({budget / per_block, most_useful + 1, int64_t{INT32_MAX}});
  if (blocks < 2) {
    const std::string problem = fmt::format(
        "the KV cache needs at least {} bytes per worker ({} bytes a block), {} are there; {}free memory, or raise "
        "--kv-cache-memory-bytes or --gpu-memory-utilization",
        2 * per_block, per_block, std::max<int64_t>(0, budget), RemedyOfShares(swap, adapters));
    const bool never_fits = topology.cache.memory * static_cast<double>(ever) < 2.0 * static_cast<double>(per_block);
    if (topology.cache.memory_bytes > 0 || never_fits) throw SettingsError(problem);
    throw Error(problem);  // a later try may find more memory
  }
  return static_cast<int>(blocks);
}

}  // namespace

int ChooseModelLen(const Topology& topology, const ModelSpec& spec) {
  const int asked = topology.scheduler.max_model_len;
  const int64_t longest = std::max(spec.max_position, spec.longest_position);
  if (asked > longest) {
    FailSettings(
        "max_model_len {} exceeds the {} tokens that the model was made for (max_position_embeddings in config.json, "
        "and how rope_scaling stretches them)",
        asked, longest);
  }
  return asked > 0 ? asked : static_cast<int>(spec.max_position);
}

int FittingModelLen(int model_len, const ModelSpec& spec, int64_t pool_tokens) {
  return spec.window() == 0 ? static_cast<int>(std::min<int64_t>(model_len, pool_tokens)) : model_len;
}

int ChooseStepTokens(const Topology& topology, BackendKind backend) {
  if (topology.scheduler.max_step_tokens > 0) return topology.scheduler.max_step_tokens;
  const int usual = backend == BackendKind::kCuda ? kCudaStepTokens : kCpuStepTokens;
  return std::max(usual, topology.scheduler.max_running);
}

int StateBlocks(const std::vector<RankInfo>& ranks) {
  int64_t blocks = 0;
  for (const RankInfo& rank : ranks)
    blocks = std::max(blocks, (rank.bytes_per_state + rank.bytes_per_block - 1) / rank.bytes_per_block);
  if (blocks > kMostStateBlocks)
    FailSettings("a sequence's state takes {} blocks, {} at most: a larger --block-size makes them fewer", blocks,
                 kMostStateBlocks);
  return static_cast<int>(blocks);
}

PoolSizes ChoosePools(const Topology& topology, BackendKind backend, const std::vector<RankInfo>& ranks,
                      const PoolDemand& demand) {
  if (const std::string problem = MemoryProblem(topology, backend, ranks); !problem.empty())
    throw SettingsError(problem);
  int64_t per_block = 1;
  for (const RankInfo& rank : ranks) per_block = std::max(per_block, rank.bytes_per_block);
  const int64_t host_blocks = std::min<int64_t>(topology.cache.host_swap_bytes / per_block, INT32_MAX - 1);
  const PoolSizes pools = {ChooseNumBlocks(topology, backend, ranks, demand), static_cast<int>(host_blocks),
                           StateBlocks(ranks)};
  if (pools.num_blocks < 2 + pools.state_blocks) {
    const std::string problem = fmt::format(
        "the KV cache has {} blocks, and the state of one sequence alone takes {} ({} bytes a block); free memory, or "
        "raise --num-kv-blocks, --kv-cache-memory-bytes or --gpu-memory-utilization",
        pools.num_blocks - 1, pools.state_blocks, per_block);
    if (topology.cache.memory_bytes > 0 || topology.cache.num_blocks > 0) throw SettingsError(problem);
    throw Error(problem);
  }
  return pools;
}

}  // namespace quire

#pragma once

#include <vector>

#include "comm/model/model_spec.h"
#include "comm/topology/topology.h"
#include "coordinator/cluster/group/rank_info.h"
#include "coordinator/core/blocks/block_manager.h"

namespace quire {

/// RankInfo::memory_limit of a plan for ranks with a given memory, which the coordinator does not share.
inline constexpr const char* kGivenMemory = "--rank-memory";

/// Returns the most tokens of a sequence before the pool's size is known: the topology's setting, or the model's
/// context. Throws Error when the topology asks for more than the model's positions reach.
int ChooseModelLen(const Topology& topology, const ModelSpec& spec);

/// Returns the most tokens of a sequence once the pool's size is known: model_len, or fewer if the pool, with room for
/// pool_tokens tokens, cannot hold that many. In a model with a sliding window the pool sets no bound, because the
/// blocks at the beginning of a sequence become free again.
int FittingModelLen(int model_len, const ModelSpec& spec, int64_t pool_tokens);

/// Returns the most tokens of a step: the topology's setting, or the backend's default, and at least max_running.
int ChooseStepTokens(const Topology& topology, BackendKind backend);

/// The sequences that a pool of KV blocks must be able to hold.
struct PoolDemand {
  int max_model_len = 0;  // longest sequence, in tokens
  int blocks_needed = 1;  // blocks that present requests need; provided if memory allows
};

/// Returns how many blocks a sequence's recurrent state takes: the maximum over all ranks, because every rank uses the
/// same number. 0: the model has no states.
int StateBlocks(const std::vector<RankInfo>& ranks);

/// Returns the number of KV blocks, and of host blocks for swapping, that fit into the ranks' memory under the
/// topology's settings. The ranks must have loaded. Throws Error when there is no room for two blocks (the null block
/// and one more) beside the blocks of one sequence's state, or when sizes in the topology exceed a host's limit
/// (host_fit.h).
PoolSizes ChoosePools(const Topology& topology, BackendKind backend, const std::vector<RankInfo>& ranks,
                      const PoolDemand& demand);

}  // namespace quire

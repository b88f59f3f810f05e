#pragma once

#include <vector>

#include "comm/model/model_spec.h"
#include "comm/topology/topology.h"
#include "coordinator/cluster/group/rank_info.h"
#include "coordinator/core/blocks/block_manager.h"

namespace quire {

/// Returns the most tokens of a sequence before the pool's size is known: the topology's setting, or the model's
/// context. Throws Error when the topology asks for more than the model's positions reach, or than an encoder's step
/// holds.
int ChooseModelLen(const Topology& topology, const ModelSpec& spec);

/// Returns the most tokens of a sequence once the pool's size is known: model_len, but no more than fit into the pool,
/// unless sliding windows free a sequence's beginning.
int FittingModelLen(int model_len, const ModelSpec& spec, int64_t pool_tokens);

/// Returns the most tokens of a step: the topology's setting, or a default for the backend and max_running. An
/// encoder's step has room for a prompt of model_len tokens.
int ChooseStepTokens(const Topology& topology, BackendKind backend, const ModelSpec& spec, int model_len);

/// The demand that a pool of KV blocks must meet.
struct PoolDemand {
  int max_model_len = 0;  // longest sequence, in tokens
  int blocks_needed = 1;  // blocks that present requests need; provided if memory allows
};

/// Returns the number of blocks for a sequence's recurrent state: the maximum over all ranks, used on every rank. 0:
/// the model has no states.
int StateBlocks(const std::vector<RankInfo>& ranks);

/// Returns the number of KV blocks, and of host blocks for swapping, that fit into the ranks' memory under the
/// topology's settings. The ranks must have loaded. Throws Error when there is no room for two blocks, or when sizes in
/// the topology exceed a host's limit (host_fit.h).
PoolSizes ChoosePools(const Topology& topology, BackendKind backend, const std::vector<RankInfo>& ranks,
                      const PoolDemand& demand);

}  // namespace quire

#pragma once

#include <vector>

#include "comm/model/model_spec.h"
#include "comm/topology/topology.h"
#include "coordinator/cluster/group/rank_info.h"
#include "coordinator/core/block_manager.h"

namespace quire {

/// Tokens of a sequence at the most, before the size of the pool is known: what the topology says, or what the model
/// was made for. Throws Error when the topology asks for more than its positions reach.
int ChooseModelLen(const Topology& topology, const ModelSpec& spec);

/// The same once the pool's size is known: a sequence must fit into it, unless windows forget its beginning.
int FittingModelLen(int model_len, const ModelSpec& spec, int64_t pool_tokens);

/// Tokens of a step at the most: what the topology says, or what suits the backend and the running sequences.
int ChooseStepTokens(const Topology& topology, BackendKind backend);

/// What a pool of KV blocks is for.
struct PoolDemand {
  int max_model_len = 0;  // tokens of a sequence at the longest
  int blocks_needed = 1;  // by requests that are there already; taken where the memory is there
};

/// Blocks that hold a sequence's state, the same number on every rank: the most that one needs. 0: the model has none.
int StateBlocks(const std::vector<RankInfo>& ranks);

/// How many KV blocks, and host blocks for swapping, the ranks have room for as the topology shares out their memory.
/// The ranks have loaded. Throws Error when there is no room for two blocks, or when
/// sizes that the topology gives exceed what a host allows (host_fit.h).
PoolSizes ChoosePools(const Topology& topology, BackendKind backend, const std::vector<RankInfo>& ranks,
                      const PoolDemand& demand);

}  // namespace quire

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/model/model_files.h"
#include "comm/topology/topology.h"
#include "comm/wire/messages.h"
#include "coordinator/cluster/group/rank_info.h"
#include "coordinator/cluster/launch/placement.h"
#include "coordinator/core/block_options.h"

namespace quire {

struct MemoryPlanOptions {
  /// Bytes that each rank may take; 0: what its host, as it is now, has for it.
  int64_t rank_memory = 0;
};

/// What one replica of a topology will take of memory. All replicas are alike.
struct MemoryPlan {
  Placement placement;          // nothing on one host
  AssignMessage assignment;     // what the ranks will be told
  std::vector<RankInfo> ranks;  // host, bytes of weights, of a block, and what is there for blocks
  PoolSizes pools;              // the null block counted in
  int model_len = 0;            // tokens of a sequence at the most
  std::string problem;          // why the model does not fit, with the bytes that are missing; then no pools

  int usable_blocks() const { return pools.num_blocks - 1; }
};

/// Asks the nodes what they have and quire-worker what the ranks will take, and sizes the pool as a start would. Throws
/// Error when a node does not answer, or the settings are impossible for the model.
MemoryPlan PlanMemory(const Topology& topology, const ModelFiles& model, const MemoryPlanOptions& options);

/// Blocks that a sequence of so many tokens holds at the most.
int64_t BlocksOfSequence(const ModelSpec& spec, int block_size, int64_t tokens);

/// Sequences of that length that run at once.
int64_t SequencesAtOnce(const MemoryPlan& plan, const Topology& topology, const ModelSpec& spec, int64_t tokens);

}  // namespace quire

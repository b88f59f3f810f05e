#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "comm/model/model_files.h"
#include "comm/topology/topology.h"
#include "comm/wire/messages.h"
#include "coordinator/cluster/group/rank_info.h"
#include "coordinator/cluster/launch/placement.h"
#include "coordinator/core/block_options.h"

namespace quire {

/// What a host has, as quire-worker says there.
struct NodeFacts {
  int64_t memory = 0;        // bytes that are free
  int64_t memory_total = 0;  // bytes that the host, or a control group there, allows in all; 0: not said
  std::string memory_limit;  // whose limit that is
  int processors = 0;        // that threads may keep busy; 0: not said
  int devices = 0;     // GPUs
  std::string device_problem;
};

/// The hosts of a topology, each asked once however many plans are made.
class NodeAnswers {
 public:
  /// "" is this host. Throws Error when it does not answer.
  const NodeFacts& Of(const Topology& topology, const std::string& host);

 private:
  std::map<std::string, NodeFacts> facts_;
};

/// What one replica of a topology will take of memory. All replicas are alike.
struct MemoryPlan {
  Placement placement;          // nothing on one host
  AssignMessage assignment;     // what the ranks will be told
  std::vector<RankInfo> ranks;  // host, bytes of weights, of a block, and what is there for blocks
  PoolSizes pools;              // the null block counted in
  int model_len = 0;            // tokens of a sequence at the most
  std::string problem;          // why the model does not fit, with the bytes that are missing; then no pools
  std::vector<std::string> warnings;  // of what may go wrong on its hosts (host_fit.h)

  int usable_blocks() const { return pools.num_blocks - 1; }
};

/// Asks the nodes what they have and quire-worker what the ranks will take, and sizes the pool as a start would.
/// rank_memory: bytes that each rank may take; 0: what its host, as it is now, has for it. Throws Error when a node
/// does not answer, or the settings are impossible for the model.
MemoryPlan PlanMemory(const Topology& topology, const ModelFiles& model, int64_t rank_memory, NodeAnswers& nodes);

/// Blocks that a sequence of so many tokens holds at the most, beside those of its state.
int64_t BlocksOfSequence(const ModelSpec& spec, int block_size, int64_t tokens);

/// Sequences of that length that run at once.
int64_t SequencesAtOnce(const MemoryPlan& plan, const Topology& topology, const ModelSpec& spec, int64_t tokens);

}  // namespace quire

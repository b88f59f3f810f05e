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

/// The resources of a host, as quire-worker reports them.
struct NodeFacts {
  int64_t memory = 0;        // bytes that are free
  int64_t memory_total = 0;  // bytes that the host, or a control group there, allows in all; 0: not said
  std::string memory_limit;  // whose limit that is
  int processors = 0;        // that threads may keep busy; 0: not said
  int devices = 0;           // GPUs
  std::string device_problem;
};

/// Caches the resources of a topology's hosts. Each host is asked once, however many plans are made.
class NodeAnswers {
 public:
  /// Returns a host's resources; "" is this host. Throws Error when the host does not answer.
  const NodeFacts& Of(const Topology& topology, const std::string& host);

 private:
  std::map<std::string, NodeFacts> facts_;
};

/// The memory of one replica of a topology. All replicas are alike.
struct MemoryPlan {
  Placement placement;                // nothing on one host
  AssignMessage assignment;           // what the ranks will be told
  std::vector<RankInfo> ranks;        // host, bytes of weights, of a block, and what is there for blocks
  PoolSizes pools;                    // the null block counted in
  int model_len = 0;                  // tokens of a sequence at the most
  std::string problem;                // why the model does not fit, with the bytes that are missing; then no pools
  std::vector<std::string> warnings;  // of what may go wrong on its hosts (host_fit.h)

  int usable_blocks() const { return pools.num_blocks - 1; }
};

/// Asks the nodes for their resources and quire-worker for the ranks' needs, and sizes the pool as a start would.
/// rank_memory is the bytes that each rank may use; 0: its host's current free memory. Throws Error when a node does
/// not answer or the model does not allow the settings.
MemoryPlan PlanMemory(const Topology& topology, const ModelFiles& model, int64_t rank_memory, NodeAnswers& nodes);

/// The most KV blocks that a sequence of so many tokens holds, without the blocks of its state.
int64_t BlocksOfSequence(const ModelSpec& spec, int block_size, int64_t tokens);

/// The number of sequences of this length that can run at once.
int64_t SequencesAtOnce(const MemoryPlan& plan, const Topology& topology, const ModelSpec& spec, int64_t tokens);

}  // namespace quire

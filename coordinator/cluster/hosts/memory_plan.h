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
#include "coordinator/core/blocks/block_options.h"

namespace quire {

/// The resources of a host, as quire-worker reports them.
struct NodeFacts {
  int64_t memory = 0;        // free bytes
  int64_t memory_total = 0;  // limit in bytes of the host or of a control group there; 0: unknown
  std::string memory_limit;  // owner of that limit, such as "the machine" or "--rank-memory"
  int processors = 0;        // processors that threads may keep busy; 0: unknown
  int devices = 0;           // number of GPUs
  std::string device_problem;
};

/// Caches the resources of a topology's hosts. Each host is queried once, regardless of the number of plans.
class NodeAnswers {
 public:
  /// Returns a host's resources; "" is this host. Throws Error when the host does not answer.
  const NodeFacts& Of(const Topology& topology, const std::string& host);

 private:
  std::map<std::string, NodeFacts> facts_;
};

/// The memory of one replica of a topology. All replicas are alike.
struct MemoryPlan {
  Placement placement;                // empty on one host
  AssignMessage assignment;           // the message that the ranks will get
  std::vector<RankInfo> ranks;        // host, bytes of weights and of a block, and bytes available for blocks
  PoolSizes pools;                    // includes the null block
  int model_len = 0;                  // most tokens of a sequence
  std::string problem;                // the missing bytes, if the model does not fit; then `pools` is unset
  std::vector<std::string> warnings;  // warnings about the hosts (HostWarnings, host_fit.h)

  int usable_blocks() const { return pools.num_blocks - 1; }
};

/// Asks the nodes for their resources and quire-worker for the ranks' needs, and sizes the pool as a start would.
/// rank_memory: the bytes that each rank may use; 0: what is free on its host now. Throws Error when a node does not
/// answer, or when the model does not allow the settings.
MemoryPlan PlanMemory(const Topology& topology, const ModelFiles& model, int64_t rank_memory, NodeAnswers& nodes);

/// Returns the most KV blocks that a sequence of `tokens` tokens holds, without blocks of a recurrent state.
int64_t BlocksOfSequence(const ModelSpec& spec, int block_size, int64_t tokens);

/// Returns how many sequences of `tokens` tokens can run together.
int64_t SequencesAtOnce(const MemoryPlan& plan, const Topology& topology, const ModelSpec& spec, int64_t tokens);

}  // namespace quire

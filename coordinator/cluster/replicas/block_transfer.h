#pragma once

#include <string>
#include <vector>

#include "comm/base/types.h"
#include "coordinator/cluster/replicas/block_shape.h"

namespace quire {

/// How far the blocks of one request are on their way from one replica to another.
struct BlockTransfer {
  RequestId request = 0;
  int from = 0, to = 0;
  BlockShape source, target;  // as they were when it began
  MigrationWay way = MigrationWay::kHost;
  int room = 0;                        // blocks set aside at the destination
  EpochId to_epoch = 0;                // of the ranks that wait there
  std::vector<std::string> endpoints;  // theirs; empty: not ready
  int givers = 0;                      // ranks of the source that were told to send
  int takers_ended = 0, givers_ended = 0;
  bool gives = false;                         // the source was told to send
  bool take_over = false, give_over = false;  // ended on all ranks, or with their group
  bool failed = false, delivered = false;
  bool called_off = false;     // the workers were told
  std::vector<BlockId> names;  // the blocks that come along, as the source named them
  int64_t bytes = 0;
  double begin_seconds = 0;  // when the source was told to send

  bool by_network() const { return GoesByNetwork(source, target); }
};

}  // namespace quire

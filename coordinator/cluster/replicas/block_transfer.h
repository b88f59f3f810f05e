#pragma once

#include <string>
#include <vector>

#include "comm/base/types.h"
#include "coordinator/cluster/replicas/block_shape.h"

namespace quire {

/// The progress of moving one request's blocks from one replica to another.
struct BlockTransfer {
  RequestId request = 0;
  int from = 0, to = 0;
  BlockShape source, target;  // shapes when the transfer began
  MigrationWay way = MigrationWay::kHost;
  int room = 0;                        // blocks reserved at the target
  EpochId to_epoch = 0;                // epoch of the target's ranks
  std::vector<std::string> endpoints;  // endpoint of each target rank; empty text: that rank is not ready
  int givers = 0;                      // number of source ranks that were ordered to send blocks
  int takers_ended = 0, givers_ended = 0;
  bool gives = false;                         // the source ranks were ordered to send
  bool take_over = false, give_over = false;  // the transfer has ended or is lost on all target ranks, or source ranks
  bool failed = false, delivered = false;
  bool called_off = false;     // the workers were ordered to stop
  std::vector<BlockId> names;  // ids that the sent blocks have at the source
  int64_t bytes = 0;
  double begin_seconds = 0;  // the time when the source ranks were ordered to send

  bool by_network() const { return GoesByNetwork(source, target); }
};

}  // namespace quire

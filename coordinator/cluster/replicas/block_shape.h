#pragma once

#include <string>
#include <vector>

#include "comm/base/group_cut.h"
#include "comm/topology/compute_settings.h"
#include "coordinator/core/migration_way.h"

namespace quire {

/// The format in which a worker group stores its KV blocks, and the addresses of its workers. It decides whether blocks
/// can move between two groups, and over which kind of link.
struct BlockShape {
  GroupCut cut;  // how the group divides the model among its ranks
  ComputeSettings compute;
  int host_blocks = 0;
  int state_blocks = 0;
  bool windowed = false;          // the model has sliding windows
  bool on_this_host = false;      // all ranks are on this host
  bool on_network = false;        // other hosts can reach its ranks
  std::vector<int> ports;         // first and last port where a rank may wait for blocks
  std::vector<std::string> keys;  // public keys of the ranks, one or more for each; empty: no encryption
};

/// Returns the reason why the target cannot use the source's blocks; empty when it can.
std::string WhyBlocksStay(const BlockShape& from, const BlockShape& to);

/// True if blocks can move in this way, provided that WhyBlocksStay is empty. From device to device only full blocks of
/// models without recurrent states and sliding windows can move. Between GPUs of different hosts such a move also
/// requires that the groups use no encryption, because NCCL does not encrypt.
bool CanGo(MigrationWay way, const BlockShape& from, const BlockShape& to);

/// True when blocks move over the network, false when they move over sockets of one host.
inline bool GoesByNetwork(const BlockShape& from, const BlockShape& to) {
  return !from.on_this_host || !to.on_this_host;
}

}  // namespace quire

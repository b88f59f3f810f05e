#pragma once

#include <string>
#include <vector>

#include "comm/topology/compute_settings.h"
#include "coordinator/core/migration_way.h"

namespace quire {

/// How a group keeps its blocks, and how other groups reach its workers: what decides whether blocks of one group can
/// go to another, and in what way.
struct BlockShape {
  std::vector<double> shares;  // by rank: how it cuts the model
  ComputeSettings compute;
  int host_blocks = 0;
  int state_blocks = 0;
  bool windowed = false;          // blocks leave the attention window
  bool on_this_host = false;      // all ranks
  bool on_network = false;        // other hosts reach its ranks
  std::vector<int> ports;         // first and last where a rank may wait for blocks
  std::vector<std::string> keys;  // public keys of ranks, one for each at least; none: in clear text
};

/// Why blocks of one group are of no use to the other; empty: they are.
std::string WhyBlocksStay(const BlockShape& from, const BlockShape& to);

/// Whether they can go this way, if they can go at all. From device to device go full blocks, without states and
/// windows, and between hosts nothing that is to be encrypted: NCCL sends in clear text.
bool CanGo(MigrationWay way, const BlockShape& from, const BlockShape& to);

/// Whether they go by way of the network, not by sockets of one host.
inline bool GoesByNetwork(const BlockShape& from, const BlockShape& to) {
  return !from.on_this_host || !to.on_this_host;
}

}  // namespace quire

#pragma once

#include <cstdint>
#include <string>

#include "comm/topology/topology.h"

namespace quire {

struct AllReduceBenchCommand {
  int ranks = 2;
  int64_t min_bytes = 1 << 10, max_bytes = 64 << 20;  // sizes grow fourfold
  int rounds = 500;                                   // of sizes up to 64 KiB; fewer of longer ones
  std::string json_file;                              // results go there, too, unless empty
};

/// Launches the ranks as a server would, has them time sums over all of them, and prints median and p99 by size and
/// method. Throws Error when mpirun or a rank fails; what they said is on stderr.
int RunAllReduceBenchCommand(const AllReduceBenchCommand& bench);

}  // namespace quire

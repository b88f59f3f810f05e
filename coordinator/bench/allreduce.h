#pragma once

#include <cstdint>
#include <string>

#include "comm/topology/topology.h"

namespace quire {

struct AllReduceBenchCommand {
  int ranks = 2;
  int64_t min_bytes = 1 << 10, max_bytes = 64 << 20;  // message sizes; each is four times the last one
  int rounds = 500;                                   // runs for each size up to 64 KiB; fewer for longer messages
  std::string json_file;                              // a file that also gets the results; empty: none
};

/// Launches the ranks as a server would, times all-reduces over all of them, and prints median and 99th percentile for
/// each size and method. Throws Error when mpirun or a rank fails; their output is on standard error.
int RunAllReduceBenchCommand(const AllReduceBenchCommand& bench);

}  // namespace quire

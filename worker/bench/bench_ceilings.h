#pragma once

#include <string>

#include "comm/collective/mpi_bootstrap.h"

namespace quire {

struct CeilingsBench {
  std::string json_file;  // rank 0 writes the results to this file
  int threads = 1;        // threads of each rank
};

/// Measures the rates of reading and computing of all ranks together, while all of them run. Rank 0 writes the rates to
/// bench.json_file. All ranks must call it. Returns the exit status.
int RunCeilingsBench(const CeilingsBench& bench, MpiBootstrap& mpi);

}  // namespace quire

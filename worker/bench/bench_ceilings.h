#pragma once

#include <string>

#include "comm/collective/mpi_bootstrap.h"

namespace quire {

struct CeilingsBench {
  std::string json_file;  // rank 0 writes the results to this file
  int threads = 1;        // threads of each rank
};

/// Measures the read and compute rates of all ranks together, running at the same time. Collective call.
int RunCeilingsBench(const CeilingsBench& bench, MpiBootstrap& mpi);

}  // namespace quire

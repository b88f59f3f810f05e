#pragma once

#include <string>

#include "comm/collective/mpi_bootstrap.h"

namespace quire {

struct CeilingsBench {
  std::string json_file;  // rank 0 writes the results there
  int threads = 1;        // of each rank
};

/// What all ranks together read and compute at the most, all at the same time. Collective call; throws Error.
int RunCeilingsBench(const CeilingsBench& bench, MpiBootstrap& mpi);

}  // namespace quire

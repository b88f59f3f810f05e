#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/collective/mpi_bootstrap.h"

namespace quire {

struct AllReduceBench {
  std::string json_file;  // rank 0 writes the results there
  int64_t min_bytes = 1 << 10, max_bytes = 64 << 20;
  int rounds = 500;  // of sizes up to 64 KiB; fewer of longer ones
};

/// One way to sum over the ranks.
struct SumMethod {
  std::string name, note;
  int64_t max_bytes = INT64_MAX;
  /// Sets all elements of this rank's message to `value`.
  std::function<void(int64_t bytes, float value)> fill;
  /// Sums it in place and returns when that is done.
  std::function<void(int64_t bytes)> sum;
  /// The first and the last element.
  std::function<std::pair<float, float>(int64_t bytes)> ends;
};

/// The methods that need GPUs; none when there are none, or in a build without CUDA. Collective call.
std::vector<SumMethod> DeviceSumMethods(MpiBootstrap& mpi, int64_t max_bytes);

/// Times sums of fp32 over the ranks: shared memory (or host by host), MPI's gather, MPI_Allreduce, and on GPUs NCCL
/// and one-shot. A round begins with a barrier and is as long as on the slowest rank. Every method's sums are checked
/// first. Collective call; throws Error.
int RunAllReduceBench(const AllReduceBench& bench, MpiBootstrap& mpi);

}  // namespace quire

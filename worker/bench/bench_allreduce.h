#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/collective/mpi_bootstrap.h"

namespace quire {

struct AllReduceBench {
  std::string json_file;  // rank 0 writes the results to this file
  int64_t min_bytes = 1 << 10, max_bytes = 64 << 20;
  int rounds = 500;  // for sizes up to 64 KiB; fewer for longer messages
};

/// One way to compute an all-reduce.
struct SumMethod {
  std::string name, note;
  int64_t max_bytes = INT64_MAX;
  /// Sets all elements of this rank's message to `value`.
  std::function<void(int64_t bytes, float value)> fill;
  /// Runs the all-reduce in place, and returns when the sum is complete.
  std::function<void(int64_t bytes)> sum;
  /// Returns the first and the last number of the sum.
  std::function<std::pair<float, float>(int64_t bytes)> ends;
};

/// Returns the all-reduces on GPUs; none without GPUs or in a build without CUDA. All ranks must call it.
std::vector<SumMethod> DeviceSumMethods(MpiBootstrap& mpi, int64_t max_bytes);

/// Times all-reduces in fp32: by Quire's own collective (over shared memory, or host by host), by an all-gather of MPI
/// whose parts each rank adds, by MPI_Allreduce, and on GPUs by NCCL and the one-shot kernel. A round begins with a
/// barrier, and its time is that of the slowest rank. Before a method is timed with a size, its sum of that size is
/// checked. Rank 0 writes the times to bench.json_file. All ranks must call it. Returns the exit status. Throws Error
/// when a sum is wrong.
int RunAllReduceBench(const AllReduceBench& bench, MpiBootstrap& mpi);

}  // namespace quire

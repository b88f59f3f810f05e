#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "comm/base/number_type.h"
#include "comm/collective/collective.h"

namespace quire {

/// Collective operations among the ranks of one tensor-parallel group on device memory. Every rank calls the same
/// operations in the same order with the same sizes, all on one stream (a cudaStream_t). Calls return once the work is
/// queued. The first call of an operation may connect to peers, so call each operation once before capturing a graph.
/// Sums are bit-equal on all ranks. Calls on a failed group throw CollectiveAborted.
class DeviceCollective {
 public:
  using Clock = std::chrono::steady_clock;
  virtual ~DeviceCollective() = default;

  virtual Rank rank() const = 0;
  virtual int size() const = 0;

  /// data[i] = sum over ranks of data[i], in place. `data` is 16-byte aligned; `type` is a float type (IsFloat).
  virtual void AllReduceSum(void* data, int64_t count, NumberType type, void* stream) = 0;

  /// Concatenates the ranks' inputs in rank order into `out`. All inputs have the same size; callers pad them. `in` may
  /// point to `out` + rank() * bytes_per_rank.
  virtual void AllGather(const void* in, void* out, int64_t bytes_per_rank, void* stream) = 0;

  /// Sets the deadline for all queued work. If it passes, the group fails: kernels that wait for peers exit, and Check
  /// throws. time_point::max() means that no work is queued.
  virtual void ExpectDoneBy(Clock::time_point deadline) = 0;

  /// Throws CollectiveAborted with rank, call and remedy once the group has failed. Call it while the host waits for a
  /// stream.
  virtual void Check() = 0;

  /// Makes this rank's kernels that wait for peers exit, and makes every later call throw. Does not wait.
  virtual void Abort() = 0;

  /// Names the mechanism that moves the data, and the sizes for which it is used. Ranks log it at the start.
  virtual std::string Describe() const = 0;
};

}  // namespace quire

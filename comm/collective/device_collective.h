#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "comm/base/number_type.h"
#include "comm/collective/collective.h"

namespace quire {

/// What the ranks of one tensor-parallel group do together on data in device memory. Every rank calls the same
/// operations in the same order with the same sizes, all on one stream (a cudaStream_t). Calls return once the work is
/// queued; the first call of a kind may connect to peers, so make one of each before capturing a graph. Sums are
/// bit-equal on all ranks. Calls on a group that has failed throw CollectiveAborted.
class DeviceCollective {
 public:
  using Clock = std::chrono::steady_clock;
  virtual ~DeviceCollective() = default;

  virtual Rank rank() const = 0;
  virtual int size() const = 0;

  /// data[i] = sum over ranks of data[i], in place. 16-byte aligned; `type` is a float (IsFloat).
  virtual void AllReduceSum(void* data, int64_t count, NumberType type, void* stream) = 0;

  /// out = the ranks' inputs one after another, all of one size; callers pad. `in` may be rank() * bytes_per_rank into
  /// `out`.
  virtual void AllGather(const void* in, void* out, int64_t bytes_per_rank, void* stream) = 0;

  /// What is queued must be over by then, or the group has failed: waiting kernels are made to leave and Check says so.
  /// time_point::max() when nothing is under way.
  virtual void ExpectDoneBy(Clock::time_point deadline) = 0;

  /// Throws CollectiveAborted, naming rank, call and remedy, once the group has failed. For the host to call while it
  /// waits for a stream.
  virtual void Check() = 0;

  /// Makes kernels of this rank that wait for others leave, and every later call throw. Returns at once.
  virtual void Abort() = 0;

  /// What moves the data, and at which sizes; printed at start.
  virtual std::string Describe() const = 0;
};

}  // namespace quire

#pragma once

#include <cstdint>
#include <string>

#include "comm/types.h"

namespace quire {

/// Element types of sums over ranks.
enum class DeviceType { kF32, kF16, kBF16 };

/// What the ranks of one group do together on data in device memory. Calls are queued on a stream (a cudaStream_t), in
/// the same order and with the same sizes on every rank.
class DeviceCollective {
 public:
  virtual ~DeviceCollective() = default;

  virtual Rank rank() const = 0;
  virtual int size() const = 0;

  /// data[i] = sum over ranks of data[i], in place.
  virtual void AllReduceSum(void* data, int64_t count, DeviceType type, void* stream) = 0;

  /// out = the ranks' inputs one after another.
  virtual void AllGather(const void* in, void* out, int64_t bytes_per_rank, void* stream) = 0;

  /// Throws when the group is broken; asked by the host while it waits for the device.
  virtual void Check() = 0;

  /// Makes every pending and later call on this rank end with an error.
  virtual void Abort() = 0;

  /// How it works, for people.
  virtual std::string Describe() const = 0;
};

}  // namespace quire

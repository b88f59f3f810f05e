#pragma once

#include <cstddef>
#include <span>
#include <stdexcept>

#include "comm/base/types.h"

namespace quire {

/// The error of a collective operation that cannot finish because the group has failed or was aborted, for example
/// because another rank is gone.
class CollectiveAborted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Collective operations among the ranks of one tensor-parallel group. Every rank calls the same operations in the same
/// order with the same sizes. Results are bit-equal on all ranks and in every run, because sums add the ranks' parts in
/// rank order.
class Collective {
 public:
  virtual ~Collective() = default;

  virtual Rank rank() const = 0;
  virtual int size() const = 0;

  /// Adds all ranks' parts to `total`: total[i] += the sum over ranks of part[i], in fp32. So the ranks' parts of a
  /// layer's output are summed and added to the residual in one pass. In a group of one rank, several threads may call
  /// this function at the same time with spans that do not overlap.
  virtual void AllReduceAdd(std::span<const float> part, std::span<float> total) = 0;

  /// Concatenates the ranks' inputs in rank order into `out`. Inputs may differ in size: counts[r] is rank r's size in
  /// bytes.
  virtual void AllGather(std::span<const std::byte> in, std::span<const size_t> counts, std::span<std::byte> out) = 0;

  /// Sends separate bytes from every rank to every rank. sizes[r * size() + to] is the number of bytes that rank r has
  /// for rank `to`. `in` holds this rank's bytes for rank 0, 1, ... in order; `out` gets the bytes that rank 0, 1, ...
  /// have for this rank. The default implementation uses AllGather.
  virtual void AllToAll(std::span<const std::byte> in, std::span<const size_t> sizes, std::span<std::byte> out);

  /// Makes pending and later calls that wait for other ranks throw CollectiveAborted, on every rank of this host. Does
  /// nothing in a group of one rank or over MPI alone.
  virtual void Abort() = 0;
};

}  // namespace quire

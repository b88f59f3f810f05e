#pragma once

#include <cstddef>
#include <span>
#include <stdexcept>

#include "comm/base/types.h"

namespace quire {

/// A collective could not finish because another rank is gone.
class CollectiveAborted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What the ranks of one tensor-parallel group do together. Every rank calls the same operations in the same order
/// with the same sizes. Results are bit-equal on all ranks and in every run: sums go in rank order.
class Collective {
 public:
  virtual ~Collective() = default;

  virtual Rank rank() const = 0;
  virtual int size() const = 0;

  /// total[i] += the sum over ranks of part[i], fp32. What a layer adds to its residual: one pass does both.
  /// Without other ranks threads may add different numbers at the same time.
  virtual void AllReduceAdd(std::span<const float> part, std::span<float> total) = 0;

  /// out = the ranks' inputs one after another; inputs may differ in size, and counts[r] is rank r's in bytes.
  virtual void AllGather(std::span<const std::byte> in, std::span<const size_t> counts, std::span<std::byte> out) = 0;

  /// Every rank has something for each of them: sizes[r * size() + to] bytes of rank r's are for `to`. in: this rank's
  /// for rank 0, 1, ...; out: what rank 0, 1, ... have for this one. By AllGather where a kind has no shorter way.
  virtual void AllToAll(std::span<const std::byte> in, std::span<const size_t> sizes, std::span<std::byte> out);

  /// Makes every pending and later call on every rank of this host throw CollectiveAborted.
  virtual void Abort() = 0;
};

}  // namespace quire

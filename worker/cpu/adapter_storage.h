#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "comm/model/formats/tensor.h"
#include "kernels/packed_weight.h"
#include "worker/engine/memory.h"

namespace quire {

/// The memory of an adapter's shard.
class AdapterStorage {
 public:
  /// reads: false leaves the memory out, and only counts it.
  explicit AdapterStorage(bool reads) : reads_(reads) {}

  int64_t bytes() const { return bytes_; }
  bool reads() const { return reads_; }

  /// Returns so many bytes; null without reading, or where there are none.
  std::byte* Take(int64_t bytes);
  /// Packs rows and columns of a matrix, in its own type or, where that takes as much memory, in fp32.
  kernels::PackedWeight Pack(const Tensor& tensor, const std::vector<int64_t>& rows, const std::vector<int64_t>& cols);
  /// Packs whole rows of a matrix in its own type.
  kernels::PackedWeight PackRows(const Tensor& tensor, const std::vector<int64_t>& rows);
  /// Copies a matrix in its own type, row by row.
  kernels::Weight Copy(const Tensor& tensor);

 private:
  const bool reads_;
  std::deque<HostMemory> storage_;
  int64_t bytes_ = 0;
};

}  // namespace quire

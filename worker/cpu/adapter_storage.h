#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "comm/model/formats/tensor.h"
#include "kernels/packed_weight.h"
#include "worker/engine/memory.h"

namespace quire {

/// Allocates the memory of a rank's shard of an adapter.
class AdapterStorage {
 public:
  /// `reads`: false to count the memory without allocating it.
  explicit AdapterStorage(bool reads) : reads_(reads) {}

  int64_t bytes() const { return bytes_; }
  bool reads() const { return reads_; }

  /// Returns `bytes` bytes of memory, or null if reads() is false or `bytes` is 0. Counts the bytes in either case.
  std::byte* Take(int64_t bytes);
  /// Packs the given rows and columns of a matrix in the matrix's own type, or in fp32 if that takes no more memory.
  kernels::PackedWeight Pack(const Tensor& tensor, const std::vector<int64_t>& rows, const std::vector<int64_t>& cols);
  /// Packs the given rows of a matrix, with all columns, in the matrix's own type.
  kernels::PackedWeight PackRows(const Tensor& tensor, const std::vector<int64_t>& rows);
  /// Copies a matrix in its own type, row by row.
  kernels::Weight Copy(const Tensor& tensor);

 private:
  const bool reads_;
  std::deque<HostMemory> storage_;
  int64_t bytes_ = 0;
};

}  // namespace quire

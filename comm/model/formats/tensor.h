#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/base/number_type.h"

namespace quire {

struct ScaledMatrix;

/// A view of a tensor in a mapped model file. It is row-major: the last dimension is contiguous.
struct Tensor {
  NumberType type = NumberType::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;
  std::span<const std::byte> scales = {};  // for kMxFp4Pairs one byte per block; with `scaled` the matrix's scales
  /// For kInt4, kInt8 and kFp8E4M3: where the numbers and scales are. `data` has all the numbers, but not in the order
  /// of `shape`.
  std::shared_ptr<const ScaledMatrix> scaled = nullptr;

  int64_t rows() const { return shape.size() < 2 ? 1 : shape.front(); }
  int64_t cols() const { return shape.empty() ? 0 : shape.back(); }
};

using TensorMap = std::map<std::string, Tensor>;

/// Returns a tensor's size in bytes. Throws Error, which begins with `what`, when an extent is negative, the size
/// overflows, or rows do not fill whole blocks.
int64_t CheckedBytes(NumberType type, std::span<const int64_t> shape, const std::string& what);

}  // namespace quire

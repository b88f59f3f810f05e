#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace quire {

/// Storage of a tensor in a model file. The q* formats and MXFP4 hold blocks of 32 or 256 numbers along the last
/// dimension. Bytes are parts of other tensors (comm/model/formats/mxfp4.h).
enum class TensorType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kMxFp4,
  kMxFp4Pairs,
  kU8,
};

const char* TensorTypeName(TensorType type);

/// Numbers and bytes of the smallest addressable piece: {1, 4} for F32, {32, 18} for Q4_0, ...
struct TensorTypeLayout {
  int64_t block_numbers;
  int64_t block_bytes;
};
TensorTypeLayout LayoutOf(TensorType type);

/// A view into a mapped model file. Row-major: the last dimension is contiguous.
struct Tensor {
  TensorType type = TensorType::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;
  std::span<const std::byte> scales = {};  // of kMxFp4Pairs: a byte for each block

  int64_t rows() const { return shape.size() < 2 ? 1 : shape.front(); }
  int64_t cols() const { return shape.empty() ? 0 : shape.back(); }
};

using TensorMap = std::map<std::string, Tensor>;

/// Bytes of a tensor, or a throw of Error (beginning with `what`) when the shape is negative, overflows, or does not
/// fill whole blocks.
int64_t CheckedBytes(TensorType type, std::span<const int64_t> shape, const std::string& what);

}  // namespace quire

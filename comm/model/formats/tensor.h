#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "comm/base/number_type.h"

namespace quire {

/// A view into a mapped model file. Row-major: the last dimension is contiguous.
struct Tensor {
  NumberType type = NumberType::kF32;  // of files: up to kU8
  std::vector<int64_t> shape;
  std::span<const std::byte> data;
  std::span<const std::byte> scales = {};  // of kMxFp4Pairs: a byte for each block

  int64_t rows() const { return shape.size() < 2 ? 1 : shape.front(); }
  int64_t cols() const { return shape.empty() ? 0 : shape.back(); }
};

using TensorMap = std::map<std::string, Tensor>;

/// Bytes of a tensor, or a throw of Error (beginning with `what`) when the shape is negative, overflows, or does not
/// fill whole blocks.
int64_t CheckedBytes(NumberType type, std::span<const int64_t> shape, const std::string& what);

}  // namespace quire

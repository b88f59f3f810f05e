#include "comm/model/formats/tensor.h"

#include "comm/base/error.h"

namespace quire {

const char* TensorTypeName(TensorType type) {
  switch (type) {
    case TensorType::kF32:
      return "F32";
    case TensorType::kF16:
      return "F16";
    case TensorType::kBF16:
      return "BF16";
    case TensorType::kQ8_0:
      return "Q8_0";
    case TensorType::kQ4_0:
      return "Q4_0";
    case TensorType::kQ4_1:
      return "Q4_1";
    case TensorType::kQ5_0:
      return "Q5_0";
    case TensorType::kQ5_1:
      return "Q5_1";
    case TensorType::kQ4_K:
      return "Q4_K";
    case TensorType::kQ5_K:
      return "Q5_K";
    case TensorType::kQ6_K:
      return "Q6_K";
    case TensorType::kMxFp4:
    case TensorType::kMxFp4Pairs:
      return "MXFP4";
    case TensorType::kU8:
      return "U8";
  }
  return "?";
}

TensorTypeLayout LayoutOf(TensorType type) {
  switch (type) {
    case TensorType::kF32:
      return {1, 4};
    case TensorType::kF16:
    case TensorType::kBF16:
      return {1, 2};
    case TensorType::kQ8_0:
      return {32, 34};
    case TensorType::kQ4_0:
      return {32, 18};
    case TensorType::kQ4_1:
      return {32, 20};
    case TensorType::kQ5_0:
      return {32, 22};
    case TensorType::kQ5_1:
      return {32, 24};
    case TensorType::kQ4_K:
      return {256, 144};
    case TensorType::kQ5_K:
      return {256, 176};
    case TensorType::kQ6_K:
      return {256, 210};
    case TensorType::kMxFp4:
      return {32, 17};
    case TensorType::kMxFp4Pairs:
      return {32, 16};
    case TensorType::kU8:
      return {1, 1};
  }
  return {1, 4};
}

int64_t CheckedBytes(TensorType type, std::span<const int64_t> shape, const std::string& what) {
  const auto [block_numbers, block_bytes] = LayoutOf(type);
  int64_t numbers = 1;
  for (const int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(numbers, extent, &numbers)) Fail("{}: impossible shape", what);
  }
  if (!shape.empty() && shape.back() % block_numbers != 0) {
    Fail("{}: rows of {} numbers do not fill blocks of {}", what, shape.back(), block_numbers);
  }
  int64_t bytes = 0;
  if (__builtin_mul_overflow(numbers / block_numbers, block_bytes, &bytes)) Fail("{}: impossible shape", what);
  return bytes;
}

}  // namespace quire

#include "kernels/check.h"
#include "kernels/cpu/isa/table.h"
#include "kernels/weight.h"

namespace quire::kernels {

WeightLayout LayoutOf(WeightType type) {
  switch (type) {
    case WeightType::kF32:
      return {1, 4};
    case WeightType::kF16:
    case WeightType::kBF16:
      return {1, 2};
    case WeightType::kQ8_0:
      return {32, 2 + 32};
    case WeightType::kQ4_0:
      return {32, 2 + 16};
    case WeightType::kQ4_1:
      return {32, 4 + 16};
  }
  QUIRE_KERNEL_CHECK(false);
}

int64_t RowBytes(WeightType type, int64_t cols) {
  const WeightLayout layout = LayoutOf(type);
  QUIRE_KERNEL_CHECK(cols % layout.block_numbers == 0);
  return cols / layout.block_numbers * layout.block_bytes;
}

void DecodeRow(const Weight& weight, int64_t row, int64_t col, int64_t count, float* out) {
  const int block = LayoutOf(weight.type).block_numbers;
  QUIRE_KERNEL_CHECK(row >= 0 && row < weight.rows && col >= 0 && col + count <= weight.cols);
  QUIRE_KERNEL_CHECK(col % block == 0 && count % block == 0);
  ActiveTable().decode(weight, row, col, count, out);
}

}  // namespace quire::kernels

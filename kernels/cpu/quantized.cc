#include <algorithm>
#include <cmath>

#include "kernels/check.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/isa/table.h"
#include "kernels/cpu/mxfp4.h"
#include "kernels/packed_weight.h"

namespace quire::kernels {

int64_t RowBytes(NumberType type, int64_t cols) {
  const NumberLayout& layout = LayoutOf(type);
  QUIRE_KERNEL_CHECK(IsWeightType(type) && cols % layout.block_numbers == 0);
  return cols / layout.block_numbers * layout.block_bytes;
}

void DecodeRow(const Weight& weight, int64_t row, int64_t col, int64_t count, float* out) {
  const auto [name, block, block_bytes] = LayoutOf(weight.type);
  QUIRE_KERNEL_CHECK(IsWeightType(weight.type) && row >= 0 && row < weight.rows && col >= 0 &&
                     col + count <= weight.cols);
  QUIRE_KERNEL_CHECK(col % block == 0 && count % block == 0);
  if (PackedType(weight.type) == weight.type) return ActiveTable().decode(weight, row, col, count, out);
  if (IsMxFp4(weight.type)) return DecodeMxFp4(BlocksOf(weight, row, col), count / block, out);
  DecodeFileQuants(weight.type, weight.data + row * weight.row_bytes + col / block * block_bytes, count, out);
}

namespace {

/// Rounds x * inverse to an integer in [least, most]. Returns 0 if `inverse` is 0 (because the scale is 0 or not
/// finite).
int Quant(float x, float inverse, int least, int most) {
  return inverse > 0 ? std::clamp(static_cast<int>(std::lrintf(x * inverse)), least, most) : 0;
}

/// Returns NaN if a number of the block is not finite, else 0. Adding the result to the scale marks the block as
/// broken.
float Spoilt(const float* x) {
  float spoilt = 0;
  for (int i = 0; i < kQuantBlock; ++i) spoilt += x[i] - x[i];
  return spoilt;
}

void EncodeQ8(const float* x, std::byte* out) {
  float largest = 0;
  for (int i = 0; i < kQuantBlock; ++i) largest = std::max(largest, std::abs(x[i]));
  const float d = PutHalf(largest / 127 + Spoilt(x), out);
  const float inverse = d > 0 ? 1 / d : 0;
  for (int i = 0; i < kQuantBlock; ++i) out[2 + i] = static_cast<std::byte>(Quant(x[i], inverse, -127, 127));
}

void EncodeQ4(const float* x, std::byte* out) {
  const auto [least, most] = std::minmax_element(x, x + kQuantBlock);
  const float d = PutHalf((*most - *least) / 15 + Spoilt(x), out), m = PutHalf(*least, out + 2);
  const float inverse = d > 0 ? 1 / d : 0;
  const auto quant = [&](int i) { return Quant(x[i] - m, inverse, 0, 15); };
  for (int i = 0; i < kQuantBlock / 2; ++i) out[4 + i] = static_cast<std::byte>(quant(i) | quant(i + 16) << 4);
}

}  // namespace

void EncodeRow(NumberType type, const float* numbers, int64_t count, std::byte* out) {
  QUIRE_KERNEL_CHECK(type == NumberType::kQ8_0 || type == NumberType::kQ4_1);
  QUIRE_KERNEL_CHECK(count % kQuantBlock == 0);
  for (const float* end = numbers + count; numbers != end; numbers += kQuantBlock, out += LayoutOf(type).block_bytes) {
    type == NumberType::kQ8_0 ? EncodeQ8(numbers, out) : EncodeQ4(numbers, out);
  }
}

}  // namespace quire::kernels

// MXFP4 (OCP Microscaling Formats 1.0): 4-bit numbers (E2M1) that share a power of two. Twice each number is an
// integer, so blocks convert to q8_0 without rounding.
#include "kernels/cpu/mxfp4.h"

#include <cmath>

#include "kernels/cpu/half.h"
#include "kernels/packed_weight.h"

namespace quire::kernels {

namespace {

constexpr int8_t kTwice[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/// Returns twice number i of a block, without the scale.
int TwiceOf(const std::byte* nibbles, bool pairs, int i) {
  const int byte = std::to_integer<int>(nibbles[pairs ? i / 2 : i % 16]);
  const bool high = pairs ? i % 2 == 1 : i >= 16;
  return kTwice[high ? byte >> 4 : byte & 15];
}

/// Returns 2^(scale - 128), half of the block's scale; NaN for 255.
float HalfOfScale(std::byte scale) {
  const int exponent = std::to_integer<int>(scale);
  return exponent == 255 ? NAN : std::ldexp(1.0f, exponent - 128);
}

}  // namespace

void DecodeMxFp4(const MxFp4Blocks& in, int64_t count, float* out) {
  for (int64_t b = 0; b < count; ++b, out += kQuantBlock) {
    const float d = HalfOfScale(in.scales[b * in.scale_stride]);
    for (int i = 0; i < kQuantBlock; ++i) {
      out[i] = d * static_cast<float>(TwiceOf(in.nibbles + b * in.nibble_stride, in.pairs, i));
    }
  }
}

void MxFp4AsQ8(const MxFp4Blocks& in, int64_t count, std::byte* out) {
  for (int64_t b = 0; b < count; ++b, out += LayoutOf(NumberType::kQ8_0).block_bytes) {
    PutHalf(HalfOfScale(in.scales[b * in.scale_stride]), out);
    for (int i = 0; i < kQuantBlock; ++i) {
      out[2 + i] = static_cast<std::byte>(TwiceOf(in.nibbles + b * in.nibble_stride, in.pairs, i));
    }
  }
}

MxFp4Blocks BlocksOf(const Weight& weight, int64_t row, int64_t col) {
  const int64_t block_bytes = LayoutOf(weight.type).block_bytes, block = col / kQuantBlock;
  const std::byte* data = weight.data + row * weight.row_bytes + block * block_bytes;
  if (weight.type == NumberType::kMxFp4) return {data + 1, block_bytes, data, block_bytes, false};
  return {data, block_bytes, weight.scales + row * (weight.cols / kQuantBlock) + block, 1, true};
}

}  // namespace quire::kernels

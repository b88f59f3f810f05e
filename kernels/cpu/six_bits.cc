// Converts rows of q5_1, q5_k and q6_k to SixBitBlocks without changing their integers.
#include <cstring>

#include "kernels/check.h"
#include "kernels/cpu/file_blocks.h"
#include "kernels/cpu/half.h"
#include "kernels/packed_weight.h"

namespace quire::kernels {

namespace {

SixBitBlock* PutQ51(const std::byte* in, SixBitBlock* out) {
  const FiveBits quants{in + 4, in + 8};
  std::memcpy(out->scales, in, sizeof(out->scales));
  for (int i = 0; i < kQuantBlock; ++i) out->numbers[i] = static_cast<uint8_t>(quants[i]);
  return out + 1;
}

SixBitBlock* PutQ5K(const std::byte* in, SixBitBlock* out) {
  const float d = GetHalf(in), least = GetHalf(in + 2);
  const SixBitScales scales{in + 4};
  for (int block = 0; block < kSuperBlock / kQuantBlock; ++block, ++out) {
    PutHalf(d * static_cast<float>(scales.scale(block)), out->scales[0]);
    PutHalf(-least * static_cast<float>(scales.minimum(block)), out->scales[1]);
    for (int i = 0; i < kQuantBlock; ++i)
      out->numbers[i] = static_cast<uint8_t>(NibbleOf(in + 48, block, i) | FifthBitOf(in + 16, block, i));
  }
  return out;
}

SixBitBlock* PutQ6K(const std::byte* in, SixBitBlock* out) {
  const float d = GetHalf(in + 208);
  for (int block = 0; block < kSuperBlock / kQuantBlock; ++block, ++out) {
    for (int half = 0; half < 2; ++half) {
      const auto scale = static_cast<int8_t>(At(in + 192 + block * 2 + half));
      PutHalf(d * static_cast<float>(scale), out->scales[half]);
    }
    for (int i = 0; i < kQuantBlock; ++i)
      out->numbers[i] = static_cast<uint8_t>(SixBitsOf(in, block * kQuantBlock + i));
  }
  return out;
}

}  // namespace

void ReadSixBits(const Weight& weight, int64_t row, int64_t col, int64_t count, SixBitBlock* out) {
  const NumberLayout layout = LayoutOf(weight.type);
  QUIRE_KERNEL_CHECK(row < weight.rows && col + count <= weight.cols && col % layout.block_numbers == 0);
  const std::byte* in = weight.data + row * weight.row_bytes + RowBytes(weight.type, col);
  for (const std::byte* end = in + RowBytes(weight.type, count); in != end; in += layout.block_bytes) {
    switch (weight.type) {
      case NumberType::kQ5_1:
        out = PutQ51(in, out);
        break;
      case NumberType::kQ5_K:
        out = PutQ5K(in, out);
        break;
      default:
        QUIRE_KERNEL_CHECK(weight.type == NumberType::kQ6_K);
        out = PutQ6K(in, out);
    }
  }
}

}  // namespace quire::kernels

#include "kernels/cpu/isa/functions.h"
#include "kernels/cpu/isa/vec.h"

namespace quire::kernels::QUIRE_ISA {

namespace {

void DecodeQ8(const std::byte* block, float* out) {
  const float d = HalfToFloat(LoadAs<uint16_t>(block));
  for (int half = 0; half < kQuantBlock; half += 16) {
    Vec q[16 / kLanes];
    BytesToFloats(LoadAs<SignedBytes16>(block + 2 + half), q);
    for (int i = 0; i < 16 / kLanes; ++i) Store(out + half + i * kLanes, q[i] * d);
  }
}

/// Decodes a block of either nibble format: value = q * d + m. (q4_0: m = -8 d, which is exact, because 8 is a power of
/// two.)
void DecodeNibbles(const std::byte* nibbles, float d, float m, float* out) {
  const auto packed = LoadAs<Bytes16>(nibbles);
  Vec low[16 / kLanes], high[16 / kLanes];
  BytesToFloats(packed & 15, low);
  BytesToFloats(packed >> 4, high);
  for (int i = 0; i < 16 / kLanes; ++i) {
    Store(out + i * kLanes, MulAdd(low[i], Splat(d), Splat(m)));
    Store(out + 16 + i * kLanes, MulAdd(high[i], Splat(d), Splat(m)));
  }
}

template <Vec (*Convert)(ShortVec), float (*ConvertOne)(uint16_t)>
void DecodeShorts(const std::byte* data, int64_t count, float* out) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) Store(out + i, Convert(LoadAs<ShortVec>(data + 2 * i)));
  for (; i < count; ++i) out[i] = ConvertOne(LoadAs<uint16_t>(data + 2 * i));
}

float BFloatToFloatOne(uint16_t b) {
  const uint32_t bits = static_cast<uint32_t>(b) << 16;
  float value;
  __builtin_memcpy(&value, &bits, 4);
  return value;
}

}  // namespace

void DecodeNumbers(const Weight& weight, int64_t row, int64_t col, int64_t count, float* out) {
  const NumberLayout& layout = kNumberLayouts[static_cast<int>(weight.type)];
  const std::byte* data = weight.data + row * weight.row_bytes + col / layout.block_numbers * layout.block_bytes;
  switch (weight.type) {
    case NumberType::kF32:
      __builtin_memcpy(out, data, static_cast<unsigned long>(count) * sizeof(float));
      return;
    case NumberType::kF16:
      DecodeShorts<HalfToFloat, HalfToFloat>(data, count, out);
      return;
    case NumberType::kBF16:
      DecodeShorts<BFloatToFloat, BFloatToFloatOne>(data, count, out);
      return;
    default:
      break;
  }
  const std::byte* end = data + count / kQuantBlock * layout.block_bytes;
  if (weight.type == NumberType::kQ8_0) {
    for (; data != end; data += layout.block_bytes, out += kQuantBlock) DecodeQ8(data, out);
  } else if (weight.type == NumberType::kQ4_0) {
    for (; data != end; data += layout.block_bytes, out += kQuantBlock) {
      const float d = HalfToFloat(LoadAs<uint16_t>(data));
      DecodeNibbles(data + 2, d, -8.0f * d, out);
    }
  } else {
    for (; data != end; data += layout.block_bytes, out += kQuantBlock) {
      DecodeNibbles(data + 4, HalfToFloat(LoadAs<uint16_t>(data)), HalfToFloat(LoadAs<uint16_t>(data + 2)), out);
    }
  }
}

}  // namespace quire::kernels::QUIRE_ISA

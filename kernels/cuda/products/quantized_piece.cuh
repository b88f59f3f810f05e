#pragma once

#include <simt/device.cuh>
#include <simt/tensor_core.cuh>
#include <type_traits>

#include "kernels/cuda/products/quantized_matrix.h"

namespace quire::kernels {

/// 16 bytes of a row's integers (16 or 32 numbers), their high bits if any, and their scales. kType kQ6_K also serves
/// kQ5_K, where scales have another meaning, and kFp8E4M3 also serves kFp8Groups, where scales are at other positions.
template <NumberType kType>
struct QuantizedPiece {
  static constexpr bool kFp8 = kType == NumberType::kFp8E4M3, kBytes = kType == NumberType::kQ8_0 || kFp8;
  static constexpr bool kFp4 = kType == NumberType::kMxFp4, kSixBits = kType == NumberType::kQ6_K;
  static constexpr int kNumbers = kBytes ? 16 : 32, kScales = kType == NumberType::kQ4_1 || kSixBits ? 2 : 1;
  using Scale = std::conditional_t<kFp8, float, std::conditional_t<kFp4, simt::BFloat16, simt::Half>>;

  simt::Vec<uint32_t, 4> ints = {};
  simt::Vec<uint32_t, 2> highs = {};  // upper bits of six-bit numbers
  simt::Vec<Scale, kScales> scales = {};
  bool has_minimum = false;  // only for six-bit numbers

  /// Loads numbers [column, column + kNumbers) of a row.
  static __device__ QuantizedPiece Load(const QuantizedMatrix& weight, int64_t row, int64_t column) {
    const char* data = static_cast<const char*>(weight.data);
    const int64_t numbers = weight.n * weight.k, at = row * weight.k + column;
    QuantizedPiece piece;
    piece.ints = simt::LoadVec<4>(As<uint32_t>(data), at / kNumbers * 4);
    data += numbers / (kBytes ? 1 : 2);
    if constexpr (kSixBits) {
      piece.highs = simt::LoadVec<2>(As<uint32_t>(data), at / 16);
      piece.has_minimum = weight.type == NumberType::kQ5_K;
      data += numbers / 4;
    }
    int64_t scale = at / 32 * kScales;
    if constexpr (kFp8) {
      const bool groups = weight.type == NumberType::kFp8Groups;
      scale = groups ? row * ((weight.k + kFp8Group - 1) / kFp8Group) + column / kFp8Group : row;
    }
    piece.scales = simt::LoadVec<kScales>(As<Scale>(data), scale);
    return piece;
  }

  /// Returns the numbers i and i + 1 as a pair of T; i must be even.
  template <class T>
  __device__ uint32_t Pair(int i) const {
    constexpr int kInWord = kBytes ? 4 : 8, kBits = kBytes ? 8 : 4;
    const uint32_t bits = ints.v[i / kInWord] >> (i % kInWord * kBits);
    if constexpr (kSixBits) {
      const uint32_t high = highs.v[i / 16] >> (i % 16 * 2);
      return simt::PackPair<T>(SixBits(bits, high, i / 16), SixBits(bits >> 4, high >> 2, i / 16));
    } else {
      return simt::PackPair<T>(Value(bits), Value(bits >> kBits));
    }
  }

 private:
  template <class Number>
  static __device__ simt::Global<const Number> As(const char* data) {
    return simt::Global<const Number>(reinterpret_cast<const Number*>(data));
  }

  static __device__ float FromBits(uint32_t bits) {
    float number;
    memcpy(&number, &bits, sizeof(number));
    return number;
  }
  /// Converts an integer below 2^23, minus `zero`, to float, by putting it into the lowest bits of the float 2^23. A
  /// conversion instruction would take four times as long as this.
  static __device__ float Number(uint32_t bits, int zero = 0) {
    return FromBits(0x4b000000u | bits) - static_cast<float>(8388608 + zero);
  }

  /// Returns the value of the number in the lowest bits of `bits`. Only the last operation rounds it.
  __device__ float Value(uint32_t bits) const {
    const float scale = simt::ToFloat(scales.v[0]);
    if constexpr (kFp4) {
      // With E2M1's exponent and mantissa in a float's fields, the value is 2^126 times too small; this also holds for
      // subnormals.
      return FromBits((bits & 8) << 28 | (bits & 7) << 22) * 0x1p126f * scale;
    } else if constexpr (kFp8) {
      // With E4M3's bits in a float's fields, the value is 2^120 times too small. E4M3's NaN would become 480, but no
      // weight is NaN.
      return FromBits((bits & 0x80) << 24 | (bits & 0x7f) << 20) * 0x1p120f * scale;
    } else if constexpr (kBytes) {
      return Number(bits & 0xff, 128) * scale;
    } else {
      return Number(bits & 0xf) * scale + simt::ToFloat(scales.v[1]);
    }
  }

  /// Returns the value of the number q with the low four bits of `low` and the low two bits of `high`. `half`: the half
  /// of the block in which the number is. The products q d and 32 d and their difference are exact in fp32.
  __device__ float SixBits(uint32_t low, uint32_t high, int half) const {
    const float first = simt::ToFloat(scales.v[0]), second = simt::ToFloat(scales.v[1]);
    const float d = has_minimum || half == 0 ? first : second;
    return Number((low & 0xf) | (high & 3) << 4) * d + (has_minimum ? second : -32 * d);
  }
};

}  // namespace quire::kernels

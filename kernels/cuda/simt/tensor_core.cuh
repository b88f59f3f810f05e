#pragma once

// A warp's matrix fragments, the operands of tensor cores. From PTX ISA, "Matrix Fragments for mma.m16n8k16": lane l
// has g = l / 4 and c = l % 4 * 2. Each register of a and b holds two neighbouring numbers:
//   a[0..3]: rows g, g + 8, g, g + 8 of A [16, 16] at columns c, c, c + 8, c + 8
//   b[0..1]: rows c, c + 1 and rows c + 8, c + 9 of B [16, 8] at column g
//   d[0..3]: D [16, 8] at (g, c), (g, c + 1), (g + 8, c), (g + 8, c + 1)

#include <simt/device.cuh>

namespace quire::simt {

/// d += a * b. All 32 lanes of the warp must call this.
template <class T>
__device__ void Mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  static_assert(std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>);
  if constexpr (std::is_same_v<T, Half>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
}

/// Loads N matrices of 8 rows of 16 bytes. Lane l < 8 * N passes the first element of row l % 8 of matrix l / 8
/// (16-byte aligned). out[i] is the pair at row l / 4, columns l % 4 * 2 and the next, of matrix i. All 32 lanes must
/// call this.
template <int N, class T>
__device__ void LoadMatrix(uint32_t (&out)[N], const T* array, int64_t row_begin) {
  static_assert(sizeof(T) == 2 && (N == 1 || N == 2 || N == 4));
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(array + row_begin));
  if constexpr (N == 1) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(out[0]) : "r"(at) : "memory");
  } else if constexpr (N == 2) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(out[0]), "=r"(out[1])
                 : "r"(at)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(at)
                 : "memory");
  }
}

/// Loads N matrices as LoadMatrix does, but transposed: out[i] is the pair at rows l % 4 * 2 and the next, column l /
/// 4.
template <int N, class T>
__device__ void LoadMatrixTransposed(uint32_t (&out)[N], const T* array, int64_t row_begin) {
  static_assert(sizeof(T) == 2 && (N == 1 || N == 2 || N == 4));
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(array + row_begin));
  if constexpr (N == 1) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(out[0]) : "r"(at) : "memory");
  } else if constexpr (N == 2) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(out[0]), "=r"(out[1])
                 : "r"(at)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(at)
                 : "memory");
  }
}

/// Packs two numbers into a register, the first into the low half. Rounds to nearest even.
template <class T>
__device__ uint32_t PackPair(float low, float high) {
  uint32_t bits;
  if constexpr (std::is_same_v<T, Half>) {
    const __half2 pair = __floats2half2_rn(low, high);
    memcpy(&bits, &pair, 4);
  } else {
    static_assert(std::is_same_v<T, BFloat16>);
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    memcpy(&bits, &pair, 4);
  }
  return bits;
}
template <class T>
__device__ Vec<float, 2> UnpackPair(uint32_t bits) {
  float2 pair;
  if constexpr (std::is_same_v<T, Half>) {
    __half2 both;
    memcpy(&both, &bits, 4);
    pair = __half22float2(both);
  } else {
    static_assert(std::is_same_v<T, BFloat16>);
    __nv_bfloat162 both;
    memcpy(&both, &bits, 4);
    pair = __bfloat1622float2(both);
  }
  return {pair.x, pair.y};
}
/// Converts two E4M3 numbers, the low byte first, to a pair of T. The result is exact.
template <class T>
__device__ uint32_t PairFromFp8(uint16_t two) {
  const __half2_raw raw = __nv_cvt_fp8x2_to_halfraw2(two, __NV_E4M3);
  uint32_t bits;
  memcpy(&bits, &raw, 4);
  if constexpr (std::is_same_v<T, Half>) return bits;
  const Vec<float, 2> pair = UnpackPair<Half>(bits);
  return PackPair<BFloat16>(pair.v[0], pair.v[1]);
}

}  // namespace quire::simt

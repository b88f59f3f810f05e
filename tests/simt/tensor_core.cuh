#pragma once

// The emulator's version of kernels/cuda/simt/tensor_core.cuh, which describes the layouts.

#include <bit>
#include <cstdint>
#include <cstring>
#include <simt/device.cuh>

namespace quire::simt {

/// One lane's operands of a matrix product. The last lane that arrives computes the products of all lanes.
struct MmaOperands {
  float* d;
  const uint32_t* a;
  const uint32_t* b;
};
template <class T>
float HalfOfPair(uint32_t pair, int which) {
  static_assert(std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>);
  return ToFloat(T{static_cast<uint16_t>(which == 0 ? pair & 0xffff : pair >> 16)});
}
/// Writes a lane's part of A into the matrix.
template <class T>
void UnpackRows(const uint32_t* a, int lane, float (&rows)[16][16]) {
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 4; ++i) rows[lane / 4 + i % 2 * 8][lane % 4 * 2 + i / 2 * 8 + half] = HalfOfPair<T>(a[i], half);
  }
}
/// Adds the products of each sum in the order of k. The eight columns of a row are two vectors.
template <class T>
void MultiplyFragments(void* const (&lanes)[32]) {
  using Quad [[gnu::vector_size(4 * sizeof(float))]] = float;
  float a[16][16];
  Quad left[16], right[16];
  for (int l = 0; l < 32; ++l) {
    const auto& mine = *static_cast<const MmaOperands*>(lanes[l]);
    UnpackRows<T>(mine.a, l, a);
    Quad* const b = l < 16 ? left : right;
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < 2; ++i) b[l % 4 * 2 + i * 8 + half][l / 4 % 4] = HalfOfPair<T>(mine.b[i], half);
    }
  }
  Quad sums[16][2];
  for (int row = 0; row < 16; ++row) {
    Quad to_left = {}, to_right = {};
    for (int k = 0; k < 16; ++k) {
      to_left += a[row][k] * left[k];
      to_right += a[row][k] * right[k];
    }
    sums[row][0] = to_left;
    sums[row][1] = to_right;
  }
  for (int l = 0; l < 32; ++l) {
    const auto& mine = *static_cast<const MmaOperands*>(lanes[l]);
    for (int i = 0; i < 4; ++i) mine.d[i] += sums[l / 4 + i / 2 * 8][l % 4 / 2][l % 2 * 2 + i % 2];
  }
}
template <class T>
void Mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], Where where = Where::current()) {
  MmaOperands mine{d, a, b};
  Executor::Current().Exchange(&mine, &MultiplyFragments<T>, where);
}

/// The offsets of the matrices' rows in shared memory: `mine` is the calling lane's row, and `all` has the rows of the
/// first 8 * N lanes.
template <int N>
struct MatrixRows {
  int64_t mine, all[8 * N];
};
template <int N>
void ShareRows(void* const (&lanes)[32]) {
  int64_t all[8 * N];
  for (int l = 0; l < 8 * N; ++l) all[l] = static_cast<const MatrixRows<N>*>(lanes[l])->mine;
  for (void* to : lanes) std::copy(all, all + 8 * N, static_cast<MatrixRows<N>*>(to)->all);
}
/// Checks that the row which each of the first 8 * N lanes names is aligned and inside the array. Gives the offsets of
/// all rows to all lanes. This reads no bytes of the matrices.
template <int N, class T>
MatrixRows<N> RowsOfMatrices(const SharedArray<T>& array, Index row_begin) {
  static_assert(sizeof(T) == 2 && (N == 1 || N == 2 || N == 4));
  Executor& executor = Executor::Current();
  MatrixRows<N> rows{};
  if (executor.lane() < 8 * N) rows.mine = array.template Offset<Vec<T, 8>>(row_begin);
  executor.Exchange(&rows, &ShareRows<N>, row_begin.where);
  return rows;
}
template <class V>
V ReadShared(int64_t at, Where where) {
  V bits;
  std::memcpy(&bits, Executor::Current().Shared(at, sizeof(V), Access::kRead, where), sizeof(V));
  return bits;
}
template <int N, class T>
void LoadMatrix(uint32_t (&out)[N], const SharedArray<T>& array, Index row_begin) {
  const MatrixRows<N> rows = RowsOfMatrices<N>(array, row_begin);
  const int lane = Executor::Current().lane();
  for (int i = 0; i < N; ++i) {
    out[i] = ReadShared<uint32_t>(rows.all[i * 8 + lane / 4] + lane % 4 * 4, row_begin.where);
  }
}
template <int N, class T>
void LoadMatrixTransposed(uint32_t (&out)[N], const SharedArray<T>& array, Index row_begin) {
  const MatrixRows<N> rows = RowsOfMatrices<N>(array, row_begin);
  const int lane = Executor::Current().lane(), row = lane % 4 * 2, column = lane / 4 * 2;
  for (int i = 0; i < N; ++i) {
    out[i] = ReadShared<uint16_t>(rows.all[i * 8 + row] + column, row_begin.where) |
             uint32_t{ReadShared<uint16_t>(rows.all[i * 8 + row + 1] + column, row_begin.where)} << 16;
  }
}

template <class T>
uint32_t PackPair(float low, float high) {
  return FromFloat<T>(low).bits | uint32_t{FromFloat<T>(high).bits} << 16;
}
template <class T>
Vec<float, 2> UnpackPair(uint32_t bits) {
  return {{HalfOfPair<T>(bits, 0), HalfOfPair<T>(bits, 1)}};
}
template <class T>
uint32_t PairFromFp8(uint16_t two) {
  return PackPair<T>(ToFloat(Fp8E4M3{static_cast<uint8_t>(two & 0xff)}),
                     ToFloat(Fp8E4M3{static_cast<uint8_t>(two >> 8)}));
}

}  // namespace quire::simt

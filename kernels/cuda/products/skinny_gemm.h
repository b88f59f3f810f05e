#pragma once

#include <cstdint>

#include "kernels/cuda/paged_cache.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// What a product does with its fp32 sums.
enum class SkinnyEpilogue {
  kStore,        // out[i, j] = sum
  kStoreFloat,   // as kStore, but in fp32: logits
  kAddResidual,  // out[i, j] += sum
  kGateMul,      // out [m, n / 2] = silu(gate) * up; weight rows in the order of SkinnyGateUpRow
};

/// The number of weight rows per thread block. Results do not depend on it, so a caller may choose by measuring.
enum class SkinnyTile { kByShape, kNarrow, kWide };

/// out = epilogue(norm(x) * weight^T) for few rows of x, which takes about as long as reading the weight once. With
/// norm_weight, norm(x) = x / sqrt(mean(x^2) + epsilon) * norm_weight for each row; without norm_weight, norm(x) = x.
/// In fp16, x * norm_weight must stay within +-65,504, because the division by the root comes last. The bits of row i
/// of out depend neither on m nor on the other rows of x. x and the rows of the weight must be 16-byte aligned.
struct SkinnyGemmParams {
  NumberType dtype;         // kF16 or kBF16
  const void* x;            // [m, k]
  int64_t x_stride;         // elements between rows, a multiple of 8
  const void* weight;       // [n, k], contiguous
  const void* norm_weight;  // [k], 16-byte aligned; null: no norm
  float epsilon;
  void* out;           // [m, n] ([m, n / 2] for kGateMul) of dtype (fp32 for kStoreFloat); not x
  int64_t out_stride;  // elements between rows
  int64_t n;           // with kGateMul a multiple of 16
  int64_t k;           // a multiple of 8
  int32_t m;           // 1 .. kSkinnyMaxRows; the launch's shape depends only on SkinnyBatch(m), n and k
  SkinnyEpilogue epilogue;
  SkinnyTile tile;
};
void SkinnyGemm(const CudaStream& stream, const SkinnyGemmParams& params);

inline constexpr int32_t kSkinnyMaxRows = 64;

/// True if SkinnyGemm supports this dtype and these sizes.
constexpr bool SkinnyGemmSupports(NumberType dtype, int64_t m, int64_t n, int64_t k) {
  return dtype != NumberType::kF32 && m >= 1 && m <= kSkinnyMaxRows && n >= 1 && k >= 8 && k % 8 == 0;
}

/// Returns the rows that a launch for m rows computes: 8, 16, 32 or 64. Rows from m on are neither read nor written.
constexpr int32_t SkinnyBatch(int32_t m) { return m <= 8 ? 8 : m <= 16 ? 16 : m <= 32 ? 32 : 64; }

/// Returns the row of a gate-and-up weight that holds column `column` of the gate or up projection: 8 gates, their 8
/// ups, the next 8 gates, and so on. So a gate and its up are in the same lane of a 16-row tensor-core tile.
constexpr int64_t SkinnyGateUpRow(int64_t column, bool up) { return column / 8 * 16 + (up ? 8 : 0) + column % 8; }

}  // namespace quire::kernels

#pragma once

#include <cstdint>

#include "kernels/packed_weight.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// y += scale * x * down^T * up^T for some rows, in some columns of y. Weights are f32, f16 or bf16.
struct LowRankPart {
  PackedWeight down;   // [rank, columns of x]
  PackedWeight up;     // [columns of y to which the part adds, rank]
  int64_t column = 0;  // first column of y to which the part adds
  float scale = 1;
};

/// Rows of x and y that share their parts.
struct LowRankGroup {
  /// [num_parts]; they add to different columns. Neighbours with the same `down` must have the same scale.
  const LowRankPart* parts;
  int64_t num_parts;
  const int32_t* rows;  // [num_rows]: the rows of y, ascending
  int64_t num_rows;
  const int32_t* x_rows = nullptr;  // [num_rows]: the row of x for each row of y; null: the same row numbers
};

/// Adds low-rank products to the rows of groups. Other rows stay as they are. CPU only: weights are packed.
/// Batch-invariant: what is added to a row of y depends only on its row of x and its parts, bit for bit. Sums are fp32:
/// first the sum along the columns of x, which is multiplied by the scale; then the sum along the rank, which is added
/// to y last.
struct LowRankParams {
  const float* x;  // rows x_stride floats apart
  int64_t x_stride;
  float* y;  // rows y_stride floats apart
  int64_t y_stride;
  const LowRankGroup* groups;  // [num_groups]; no row is in two of them
  int64_t num_groups;
};
void AddLowRank(const CpuStream& stream, const LowRankParams& params);

}  // namespace quire::kernels

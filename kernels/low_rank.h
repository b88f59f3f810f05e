#pragma once

#include <cstdint>

#include "kernels/packed_weight.h"
#include "kernels/stream.h"

namespace quire::kernels {

/// y += x * down^T * up^T for some rows, in some columns of y. Weights are f32.
struct LowRankPart {
  PackedWeight down;   // [rank, columns of x]
  PackedWeight up;     // [columns of y that it adds to, rank]
  int64_t column = 0;  // the first of these columns
};

/// Rows of x and y that share their parts.
struct LowRankGroup {
  const LowRankPart* parts;  // [num_parts]; they add to different columns
  int64_t num_parts;
  const int32_t* rows;  // [num_rows], ascending
  int64_t num_rows;
};

/// Adds low-rank products to the rows of groups. Other rows stay as they are. CPU only: weights are packed here.
/// Batch-invariant: y[i, :] depends on x[i, :] and the row's parts alone, bit for bit. Accumulates in fp32: first along
/// the columns of x, then along the rank, and adds this sum to y at last.
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

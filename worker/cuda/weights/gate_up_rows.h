#pragma once

#include <vector>

#include "kernels/cuda/products/skinny_gemm.h"
#include "worker/cuda/weights/uploader.h"

namespace quire {

/// Returns `width` rows of gates and of ups in the order of kernels::SkinnyGateUpRow. Rows beyond the given ones are
/// zeros.
inline std::vector<RowSource> Alternating(const std::vector<RowSource>& gate, const std::vector<RowSource>& up,
                                          int64_t width) {
  std::vector<RowSource> rows(static_cast<size_t>(2 * width));
  for (size_t i = 0; i < gate.size(); ++i) {
    rows[static_cast<size_t>(kernels::SkinnyGateUpRow(static_cast<int64_t>(i), false))] = gate[i];
    rows[static_cast<size_t>(kernels::SkinnyGateUpRow(static_cast<int64_t>(i), true))] = up[i];
  }
  return rows;
}

}  // namespace quire

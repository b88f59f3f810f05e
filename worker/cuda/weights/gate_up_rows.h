#pragma once

#include <vector>

#include "kernels/cuda/products/skinny_gemm.h"

namespace quire {

/// Returns `width` elements of gates and of ups, such as rows or numbers, in the order of kernels::SkinnyGateUpRow.
/// Elements beyond the given ones are zeros (T()).
template <class T>
std::vector<T> Alternating(const std::vector<T>& gate, const std::vector<T>& up, int64_t width) {
  std::vector<T> both(static_cast<size_t>(2 * width));
  for (size_t i = 0; i < gate.size(); ++i) {
    both[static_cast<size_t>(kernels::SkinnyGateUpRow(static_cast<int64_t>(i), false))] = gate[i];
    both[static_cast<size_t>(kernels::SkinnyGateUpRow(static_cast<int64_t>(i), true))] = up[i];
  }
  return both;
}

}  // namespace quire

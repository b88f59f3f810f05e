#pragma once

#include <vector>

#include "kernels/cuda/paged/paged_decode.h"

namespace quire::kernels::reference {

/// Computes PagedDecode in fp64: all scores of a query, their softmax, and the weighted sum of values. Reads keys and
/// values one by one, as the layout is defined. Returns [num_seqs, num_heads, head_size]. Reads the arrays of `p` on
/// the host. `spreads`, unless null, receives the spread of each result (AttentionBound).
std::vector<double> PagedDecode(const PagedDecodeParams& p, std::vector<double>* spreads = nullptr);

/// Bounds the difference of an attention result from the exact one. The result is rounded once, and each weight may be
/// rounded before it multiplies its value. These errors are independent, so they grow with `spread`, the root of the
/// sum of squares of the weighted values. Four times the largest rounding error of this spread is more than eight
/// standard deviations. A bound by the largest value would hide the loss of some of a thousand keys. `unit` is the
/// largest relative error of a rounding, and `sums` is the largest relative error of fp32 sums.
double AttentionBound(double unit, double sums, double exact, double spread);

/// The keys and values of positions [first, end) of one sequence and KV head, times their scales.
class HeadOfSequence {
 public:
  HeadOfSequence(const PagedCache& cache, const int32_t* table, int64_t kv_head, int64_t first, int64_t end);

  const double* Key(int64_t position) const { return &keys_[static_cast<size_t>((position - first_) * size_)]; }
  const double* Value(int64_t position) const { return &values_[static_cast<size_t>((position - first_) * size_)]; }

 private:
  int64_t first_, size_;
  std::vector<double> keys_, values_;
};

/// Returns the index, in elements, of dimension d of token `offset` of a block.
int64_t KeyIndex(const PagedCache& cache, int64_t block, int64_t kv_head, int64_t offset, int64_t d);
int64_t ValueIndex(const PagedCache& cache, int64_t block, int64_t kv_head, int64_t offset, int64_t d);

}  // namespace quire::kernels::reference

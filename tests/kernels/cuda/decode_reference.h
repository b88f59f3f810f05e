#pragma once

#include <vector>

#include "kernels/cuda/paged/paged_decode.h"

namespace quire::kernels::reference {

/// PagedDecode in fp64: a whole row of scores, its softmax, the weighted sum of values; keys and values are read one
/// number at a time by the definition of the layout. Returns [num_seqs, num_heads, head_size]. Reads p's arrays on the
/// host. spreads, unless null, becomes the spread of each result.
std::vector<double> PagedDecode(const PagedDecodeParams& p, std::vector<double>* spreads = nullptr);

/// How far a result of attention may be from the exact one. It is rounded once, and each weight may be before it meets
/// its value: those errors are independent, so they grow with the root of the sum of squares of the weighted values,
/// the `spread`, of which four times the largest rounding are more than eight standard deviations. A bound by the
/// largest value would hide the loss of some of a thousand keys. `unit`: the largest relative error of a rounding;
/// `sums`: that of fp32 sums.
double AttentionBound(double unit, double sums, double exact, double spread);

/// Keys and values of positions [first, end) of one sequence and kv head, scaled.
class HeadOfSequence {
 public:
  HeadOfSequence(const PagedCache& cache, const int32_t* table, int64_t kv_head, int64_t first, int64_t end);

  const double* Key(int64_t position) const { return &keys_[static_cast<size_t>((position - first_) * size_)]; }
  const double* Value(int64_t position) const { return &values_[static_cast<size_t>((position - first_) * size_)]; }

 private:
  int64_t first_, size_;
  std::vector<double> keys_, values_;
};

/// Where dimension d of token `offset` of a block lies, in elements.
int64_t KeyIndex(const PagedCache& cache, int64_t block, int64_t kv_head, int64_t offset, int64_t d);
int64_t ValueIndex(const PagedCache& cache, int64_t block, int64_t kv_head, int64_t offset, int64_t d);

}  // namespace quire::kernels::reference

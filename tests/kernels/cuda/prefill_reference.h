#pragma once

#include <vector>

#include "kernels/cuda/prefill/prefill_attention.h"

namespace quire::kernels::reference {

/// PrefillAttention in fp64: for every query a whole row of scores, its softmax, the weighted sum of values. Returns
/// [query_start[num_seqs], num_heads, head_size], NaN in the rows of padded sequences. Reads p's arrays, not its tiles,
/// on the host. spreads, unless null, becomes the spread of each result (AttentionBound).
std::vector<double> PrefillAttention(const PrefillAttentionParams& p, int64_t num_seqs,
                                     std::vector<double>* spreads = nullptr);

}  // namespace quire::kernels::reference

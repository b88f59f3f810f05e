#pragma once

#include <vector>

#include "kernels/cuda/prefill/prefill_attention.h"

namespace quire::kernels::reference {

/// Computes PrefillAttention in fp64: for every query all scores, their softmax and the weighted sum of values. Returns
/// [query_start[num_seqs], num_heads, head_size], with NaN in the rows of padded sequences. Reads the arrays of `p` on
/// the host, and not its tiles. `spreads`, unless null, receives the spread of each result (AttentionBound).
std::vector<double> PrefillAttention(const PrefillAttentionParams& p, int64_t num_seqs,
                                     std::vector<double>* spreads = nullptr);

}  // namespace quire::kernels::reference

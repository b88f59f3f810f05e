#pragma once

#include <vector>

#include "kernels/cuda/paged/paged_decode.h"

namespace quire::kernels::reference {

/// PagedDecode in fp64: a whole row of scores, its softmax, the weighted sum of values; keys and values are read one
/// number at a time by the definition of the layout. Returns [num_seqs, num_heads, head_size]. Reads p's arrays on the
/// host.
std::vector<double> PagedDecode(const PagedDecodeParams& p);

/// Where dimension d of token `offset` of a block lies, in elements.
int64_t KeyIndex(const PagedCache& cache, int64_t block, int64_t kv_head, int64_t offset, int64_t d);
int64_t ValueIndex(const PagedCache& cache, int64_t block, int64_t kv_head, int64_t offset, int64_t d);

}  // namespace quire::kernels::reference

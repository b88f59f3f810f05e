#pragma once

#include <vector>

#include "comm/model/tensor.h"
#include "kernels/weight.h"
#include "worker/shard.h"

namespace quire {

/// A tensor of a model file as the kernels take a weight, in place.
kernels::Weight AsWeight(const Tensor& tensor);

/// The numbers of a vector in fp32.
std::vector<float> ReadVector(const Tensor& tensor);

/// begin, begin + 1, .. end - 1.
std::vector<int64_t> RowsOf(Range range);

/// The rows of whole heads, in the order in which dimension i of a head rotates with dimension i + head_dim / 2.
/// `interleaved`: the file has them in GGUF's order, in which it rotates with its neighbour.
std::vector<int64_t> RowsOfHeads(Range heads, int64_t head_dim, bool interleaved);

}  // namespace quire

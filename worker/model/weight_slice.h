#pragma once

#include <vector>

#include "comm/model/model_files.h"
#include "kernels/activation.h"
#include "kernels/route_experts.h"
#include "kernels/weight.h"
#include "worker/model/shard.h"

namespace quire {

kernels::Activation AsKernel(Activation activation);
/// What the mixture alone says of how its router chooses; where logits and results lie is for the backend to fill in.
kernels::RouteExpertsParams RoutingOf(const Mixture& mixture);

/// The part of a weight that a rank holds: some rows, in the order in which the rank keeps them, and some columns of
/// each. A vector is a column of one number per row.
struct WeightSlice {
  std::vector<int64_t> rows;
  Range cols;
  /// Where the file has those columns, one piece after another, if it has them in another order; else none.
  std::vector<Range> pieces = {};
};

/// What follows from the weight's axes and the rank's shard. Rows are counted in the file's tensor, of which other
/// weights may have rows, too. Rows of heads come in the order in which dimension i of a head rotates with dimension i
/// + half of those that rotate, and value heads that keep a state beside those of the same key head, whatever the
/// file's is.
WeightSlice SliceOf(const ModelFiles& files, const RankShard& shard, Role role, int64_t layer = 0);

/// Rows for columns, in `room`, which outlives what is returned. Throws Error for quantised tensors.
Tensor Transposed(const Tensor& tensor, std::vector<std::byte>& room);

/// A tensor of a model file as the kernels take a weight, in place.
kernels::Weight AsWeight(const Tensor& tensor);

/// A rank's part of a vector in fp32, of norms as what is multiplied by; nothing where the layer has no such vector.
std::vector<float> ReadVector(const ModelFiles& files, const RankShard& shard, Role role, int64_t layer = 0,
                              int64_t expert = 0);

/// A rank's part of convolutions, the channels of one role after those of another: [taps, channels] in fp32, the
/// oldest token's first.
std::vector<float> ReadTaps(const ModelFiles& files, const RankShard& shard, const std::vector<Role>& roles,
                            int64_t layer);

}  // namespace quire

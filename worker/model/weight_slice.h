#pragma once

#include <vector>

#include "comm/model/model_files.h"
#include "kernels/activation.h"
#include "kernels/route_experts.h"
#include "kernels/weight.h"
#include "worker/model/shard.h"
#include "worker/model/weight_plan.h"

namespace quire {

kernels::Activation AsKernel(Activation activation);
/// Returns the routing parameters that the mixture determines. The backend adds pointers to logits and results.
kernels::RouteExpertsParams RoutingOf(const Mixture& mixture);

/// The part of a weight that a rank has: its rows, in the rank's order, and the columns of each row. A vector counts as
/// a matrix with one column.
struct WeightSlice {
  std::vector<int64_t> rows;
  Range cols;
  /// The pieces of the file's columns in the rank's order; empty if the rank keeps the file's order.
  std::vector<Range> pieces = {};
};

/// Returns the range of indices along an axis that belongs to the rank.
Range PartOf(const ModelSpec& spec, Axis axis, const RankShard& shard, int64_t layer);

/// Computes the slice from the weight's axes and the rank's shard. Rows are counted in the file's tensor, which may
/// also contain rows of other weights. Rows of heads come in rotation order, whatever the file's order is: dimension i
/// of a head rotates with dimension i + half of the rotated dimensions. Value heads that keep a state come next to the
/// other value heads of their key head.
WeightSlice SliceOf(const ModelFiles& files, const RankShard& shard, Role role, int64_t layer = 0);
/// Computes the slice of a tensor that is not in the model's files, such as an adapter's tensor. `layout` has the
/// orders of the tensor's rows and columns, and `places` has the rows that the weight occupies.
WeightSlice SliceOf(const ModelSpec& layout, const WeightSpec& weight, const RowPlaces& places, const RankShard& shard,
                    int64_t layer);

/// Returns the transposed matrix, stored in `room`, which must outlive the result. Throws Error for quantised tensors.
Tensor Transposed(const Tensor& tensor, std::vector<std::byte>& room);

/// Views a tensor of a model file as a kernel's weight, without a copy. Throws SettingsError for a type that no weight
/// has.
kernels::Weight AsWeight(const Tensor& tensor);

/// Returns a rank's part of a vector in fp32, as the forward pass uses it: norms are the factors to multiply by, and
/// rates of states are no logarithms. Empty where the layer has no such vector.
std::vector<float> ReadVector(const ModelFiles& files, const RankShard& shard, Role role, int64_t layer = 0,
                              int64_t expert = 0);
/// Returns the numbers of a planned vector, the parts one after another. Rows and columns change places if the plan
/// says so.
std::vector<float> ReadVector(const ModelFiles& files, const RankShard& shard, const PlannedWeight& planned,
                              int64_t layer = 0, int64_t expert = 0);

}  // namespace quire

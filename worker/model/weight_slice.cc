#include "worker/model/weight_slice.h"

#include <cmath>
#include <cstring>

#include "comm/base/error.h"

namespace quire {

namespace {

/// Returns the file's row for row `row` of heads in rotation order (SliceOf), for files that store the two dimensions
/// of a rotated pair side by side.
int64_t InterleavedRow(int64_t row, int64_t head_dim, int64_t rotated_dims) {
  const int64_t head = row / head_dim, i = row % head_dim, half = rotated_dims / 2;
  if (i >= rotated_dims) return row;
  return head * head_dim + (i < half ? 2 * i : 2 * (i - half) + 1);
}

/// Returns the file's index of a value head, for files with tiled value heads (Recurrence::values_tiled).
int64_t TiledHead(const Recurrence& recurrence, int64_t head) {
  return head % recurrence.heads_per_key() * recurrence.key_heads + head / recurrence.heads_per_key();
}

/// Returns how many numbers one value head has along an axis; 0 for axes without value heads.
int64_t PerValueHead(const Recurrence& recurrence, Axis axis) {
  return axis == Axis::kStateHeads ? 1 : axis == Axis::kStateValues ? recurrence.value_dim : 0;
}

/// Returns the file's column ranges of the value heads, for files with tiled value heads.
std::vector<Range> TiledPieces(const Recurrence& recurrence, const Range& heads) {
  std::vector<Range> pieces;
  for (int64_t head = heads.begin; head < heads.end; ++head) {
    const int64_t begin = TiledHead(recurrence, head) * recurrence.value_dim;
    pieces.push_back({begin, begin + recurrence.value_dim});
  }
  return pieces;
}

kernels::RouterScore AsKernel(RouterScore score) {
  switch (score) {
    case RouterScore::kSoftmax:
      return kernels::RouterScore::kSoftmax;
    case RouterScore::kSoftmaxOfChosen:
      return kernels::RouterScore::kSoftmaxOfChosen;
    case RouterScore::kSigmoid:
      return kernels::RouterScore::kSigmoid;
    case RouterScore::kSparseMixer:
      return kernels::RouterScore::kSparseMixer;
  }
  Fail("unknown score of a router");
}

/// Returns a rank's channels of a convolution: [channels, taps] in fp32.
std::vector<float> ReadTaps(const ModelFiles& files, const RankShard& shard, Role role, int64_t layer) {
  const int64_t taps = files.spec().recurrence.taps;
  const kernels::Weight stored = AsWeight(files.Get(role, layer));
  std::vector<float> numbers;
  for (const int64_t row : SliceOf(files, shard, role, layer).rows) {
    numbers.resize(numbers.size() + static_cast<size_t>(taps));
    kernels::DecodeRow(stored, row, 0, taps, numbers.data() + std::ssize(numbers) - taps);
  }
  return numbers;
}

/// Returns a number of a vector, as the file has it, in the form that the forward pass uses.
float AsUsed(const ModelSpec& spec, Role role, float stored) {
  if (role == Role::kStateRate) return spec.recurrence.rates_negated ? -stored : std::exp(stored);
  const float add = IsNorm(role) && spec.norms_add_one ? 1 : 0;
  float scale = 1;
  if (role == Role::kRouterNorm) scale /= std::sqrt(static_cast<float>(spec.hidden_size));
  if (role == Role::kLayerProjectionNorm) scale = std::sqrt(0.5f);
  return (stored + add) * scale;
}

}  // namespace

Range PartOf(const ModelSpec& spec, Axis axis, const RankShard& shard, int64_t layer) {
  const LayerSpec& l = spec.layers[static_cast<size_t>(layer)];
  const int64_t head_dim = l.head_dim, value_size = l.value_size();
  const Range& kv_heads = shard.layer(layer).kv_heads;
  const Recurrence& r = spec.recurrence;
  switch (axis) {
    case Axis::kHeads:
      return shard.heads;
    case Axis::kQueries:
      return {shard.heads.begin * head_dim, shard.heads.end * head_dim};
    case Axis::kKeyValues:
      return {kv_heads.begin * head_dim, kv_heads.end * head_dim};
    case Axis::kValues:
      return {kv_heads.begin * value_size, kv_heads.end * value_size};
    case Axis::kAttended:
      return {shard.heads.begin * value_size, shard.heads.end * value_size};
    case Axis::kMlp:
      return shard.layer(layer).mlp;
    case Axis::kExpertMlp:
      return shard.expert_mlp;
    case Axis::kSharedMlp:
      return shard.shared_mlp;
    case Axis::kVocab:
      return shard.vocab;
    case Axis::kChannels:
      return shard.channels;
    case Axis::kStateHeads:
      return shard.value_heads;
    case Axis::kStateKeys:
      return {shard.key_heads.begin * r.key_dim, shard.key_heads.end * r.key_dim};
    case Axis::kStateValues:
      return {shard.value_heads.begin * r.value_dim, shard.value_heads.end * r.value_dim};
    case Axis::kLatents:
    case Axis::kQueryParts:
    case Axis::kKeyParts:
    case Axis::kValueParts: {
      const int64_t numbers = NumbersPerHead(spec.latent, axis);
      return {shard.heads.begin * numbers, shard.heads.end * numbers};
    }
    case Axis::kOne:
    case Axis::kHidden:
    case Axis::kJoined:
    case Axis::kLayerInput:
    case Axis::kLayerInputs:
    case Axis::kHeadDim:
    case Axis::kQueryRank:
    case Axis::kLatent:
    case Axis::kKeyPartDim:
    case Axis::kTokens:
    case Axis::kPositionRows:
    case Axis::kTypes:
    case Axis::kOutputs:
    case Axis::kColbertDims:
    case Axis::kBuckets:
    case Axis::kExperts:
    case Axis::kStateHeadDim:
    case Axis::kTaps:
      return {0, Extent(spec, axis, layer)};
  }
  Fail("unknown axis");
}

WeightSlice SliceOf(const ModelFiles& files, const RankShard& shard, Role role, int64_t layer) {
  return SliceOf(files.spec(), files.weight(role), files.PlacesOf(role, layer), shard, layer);
}

WeightSlice SliceOf(const ModelSpec& spec, const WeightSpec& weight, const RowPlaces& places, const RankShard& shard,
                    int64_t layer) {
  const LayerSpec& l = spec.layers[static_cast<size_t>(layer)];
  const Range part = PartOf(spec, weight.rows, shard, layer);
  const bool interleaved = weight.rotates && spec.interleaved_rope_rows;
  const Recurrence& r = spec.recurrence;
  const int64_t tiled = r.values_tiled ? PerValueHead(r, weight.rows) : 0;
  WeightSlice slice{{}, PartOf(spec, weight.cols, shard, layer)};
  slice.rows.reserve(static_cast<size_t>(part.size()));
  for (int64_t row = part.begin; row < part.end; ++row) {
    const int64_t kept = interleaved ? InterleavedRow(row, l.head_dim, spec.rotated_dims(l))
                         : tiled > 0 ? TiledHead(r, row / tiled) * tiled + row % tiled
                                     : row;
    slice.rows.push_back(places.Of(kept));
  }
  if (r.values_tiled && weight.cols == Axis::kStateValues) slice.pieces = TiledPieces(r, shard.value_heads);
  return slice;
}

kernels::Activation AsKernel(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return kernels::Activation::kSilu;
    case Activation::kGelu:
      return kernels::Activation::kGelu;
    case Activation::kGeluTanh:
      return kernels::Activation::kGeluTanh;
    case Activation::kRelu:
      return kernels::Activation::kRelu;
    case Activation::kRelu2:
      return kernels::Activation::kRelu2;
    case Activation::kClampedSilu:
      return kernels::Activation::kClampedSilu;
  }
  Fail("unknown activation");
}

kernels::RouteExpertsParams RoutingOf(const Mixture& mixture) {
  return {.num_experts = mixture.experts,
          .experts_per_token = mixture.experts_per_token,
          .score = AsKernel(mixture.score),
          .tolerance = static_cast<float>(mixture.tolerance),
          .renormalize = mixture.renormalize,
          .scale = static_cast<float>(mixture.scale),
          .num_groups = mixture.groups,
          .groups_per_token = mixture.groups_per_token};
}

Tensor Transposed(const Tensor& tensor, std::vector<std::byte>& room) {
  const NumberLayout& layout = LayoutOf(tensor.type);
  if (layout.block_numbers != 1)
    FailSettings("a {} tensor with rows for columns is not supported", LayoutOf(tensor.type).name);
  const auto rows = static_cast<size_t>(tensor.rows()), cols = static_cast<size_t>(tensor.cols()),
             bytes = static_cast<size_t>(layout.block_bytes);
  room.resize(tensor.data.size());
  for (size_t row = 0; row < rows; ++row) {
    for (size_t col = 0; col < cols; ++col)
      std::memcpy(&room[(col * rows + row) * bytes], &tensor.data[(row * cols + col) * bytes], bytes);
  }
  return {tensor.type, {tensor.cols(), tensor.rows()}, room};
}

kernels::Weight AsWeight(const Tensor& tensor) {
  if (!IsWeightType(tensor.type)) FailSettings("a weight of {} numbers is not supported", LayoutOf(tensor.type).name);
  return {tensor.type,
          tensor.data.data(),
          tensor.rows(),
          tensor.cols(),
          kernels::RowBytes(tensor.type, tensor.cols()),
          tensor.scales.data()};
}

std::vector<float> ReadVector(const ModelFiles& files, const RankShard& shard, Role role, int64_t layer,
                              int64_t expert) {
  if (!files.Has(role, layer)) return {};
  const Tensor& tensor = files.Get(role, layer, expert);
  const kernels::Weight stored = AsWeight(tensor);
  std::vector<float> whole(static_cast<size_t>(tensor.rows() * tensor.cols())), part;
  for (int64_t row = 0; row < tensor.rows(); ++row)  // more than one row if the file stores a vector as a matrix
    kernels::DecodeRow(stored, row, 0, tensor.cols(), whole.data() + row * tensor.cols());
  for (const int64_t row : SliceOf(files, shard, role, layer).rows)
    part.push_back(AsUsed(files.spec(), role, whole[static_cast<size_t>(row)]));
  return part;
}

std::vector<float> ReadVector(const ModelFiles& files, const RankShard& shard, const PlannedWeight& planned,
                              int64_t layer, int64_t expert) {
  std::vector<float> numbers;
  for (const PlannedPart& part : planned.parts) {
    const std::vector<float> more =
        planned.turned ? ReadTaps(files, shard, part.role, layer) : ReadVector(files, shard, part.role, layer, expert);
    numbers.insert(numbers.end(), more.begin(), more.end());
  }
  if (!planned.turned) return numbers;
  const auto rows = static_cast<size_t>(planned.rows()), cols = static_cast<size_t>(planned.cols.size());
  std::vector<float> turned;
  turned.reserve(numbers.size());
  for (size_t col = 0; col < cols; ++col) {
    for (size_t row = 0; row < rows; ++row) turned.push_back(numbers[row * cols + col]);
  }
  return turned;
}

}  // namespace quire

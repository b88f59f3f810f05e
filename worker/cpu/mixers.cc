#include "worker/cpu/mixers.h"

#include <algorithm>

#include "comm/base/error.h"
#include "kernels/causal_conv.h"
#include "kernels/gate_squares.h"
#include "kernels/gated_delta.h"
#include "kernels/gated_norm.h"
#include "kernels/scale_columns.h"
#include "kernels/state_space.h"
#include "kernels/wide_norm.h"

namespace quire {

namespace {

int64_t MostHeld(const EngineSizes& sizes) { return std::min(sizes.draft_rows, sizes.max_step_tokens); }

/// Returns the bytes that the input rows of a step's sequences with drafts take, in all layers.
int64_t HeldBytes(const ModelSpec& spec, const RankShard& shard, const EngineSizes& sizes) {
  const int64_t rows = StateLayout(spec, shard).num_kept * MostHeld(sizes);
  return rows * MixerShape(spec, shard).in_width * static_cast<int64_t>(sizeof(float));
}

/// Returns how many sums of squares the buffer for state spaces holds: this rank's sums, then the sums over all ranks;
/// 0 for other mixers.
int64_t NumSquares(const ModelSpec& spec, const MixerShape& shape, const EngineSizes& sizes) {
  return shape.mixer == Mixer::kStateSpace ? 2 * sizes.max_step_tokens * spec.recurrence.key_heads : 0;
}

}  // namespace

CpuMixers::CpuMixers(const ModelSpec& spec, const RankShard& shard, const kernels::CpuStream& stream,
                     Collective& collective, const EngineSizes& sizes)
    : spec_(spec),
      shard_(shard),
      stream_(stream),
      collective_(collective),
      states_(spec, shard),
      shape_(spec, shard),
      factors_(FactorsOf(spec.scales, shape_)),
      max_held_(MostHeld(sizes)),
      held_(static_cast<size_t>(HeldBytes(spec, shard, sizes))) {
  in_.resize(static_cast<size_t>(sizes.max_step_tokens * shape_.in_width));
  out_.resize(static_cast<size_t>(sizes.max_step_tokens * shape_.out_width));
  squares_.resize(static_cast<size_t>(NumSquares(spec, shape_, sizes)));
}

int64_t CpuMixers::Bytes(const ModelSpec& spec, const RankShard& shard, const EngineSizes& sizes) {
  const MixerShape shape(spec, shard);
  const int64_t numbers = sizes.max_step_tokens * (shape.in_width + shape.out_width) + NumSquares(spec, shape, sizes);
  return numbers * static_cast<int64_t>(sizeof(float)) + HeldBytes(spec, shard, sizes);
}

void CpuMixers::Mix(int64_t layer, const MixerWeights& weights, const StepInputs& inputs, const KvCache& cache) {
  if (shape_.mixer == Mixer::kAttention) Fail("layer {} keeps no state", layer);
  if (shape_.in_width > 0) {
    if (!factors_.empty())
      kernels::ScaleColumns(stream_,
                            {in_.data(), factors_.data(), inputs.num_tokens(), shape_.in_width, shape_.in_width});
    if (!inputs.held_rows.empty()) Hold(layer, inputs);
    Recur(layer, weights, inputs, cache);
    if (shape_.mixer == Mixer::kGatedDelta) NormHeads(weights.norm, inputs.num_tokens());
  }
  if (shape_.mixer == Mixer::kStateSpace) NormGroups(weights.norm, inputs.num_tokens());
}

/// Stores the input rows of sequences with drafts, one sequence after another, because Recur may overwrite them in
/// in().
void CpuMixers::Hold(int64_t layer, const StepInputs& inputs) {
  int64_t held = 0;
  for (size_t s = 0; s < inputs.held_rows.size(); ++s) {
    const int64_t rows = inputs.held_rows[s];
    QUIRE_CHECK(held + rows <= max_held_, "{} rows with drafts, at most {}", held + rows, max_held_);
    std::copy_n(in_.data() + inputs.query_start[s] * shape_.in_width, rows * shape_.in_width, HeldRow(layer, held));
    held += rows;
  }
}

float* CpuMixers::HeldRow(int64_t layer, int64_t row) {
  return reinterpret_cast<float*>(held_.data()) + (states_.layer(layer).index * max_held_ + row) * shape_.in_width;
}

void CpuMixers::AdvanceHeld(int64_t layer, const MixerWeights& weights, const StepInputs& inputs,
                            std::span<const int32_t> rows, const KvCache& cache) {
  if (shape_.in_width == 0) return;
  StepInputs& r = remains_;
  r.Clear();
  r.state_stride = inputs.state_stride;
  int64_t held = 0;
  for (size_t s = 0; s < inputs.held_rows.size(); ++s) {
    if (inputs.held_rows[s] == 0) continue;
    std::copy_n(HeldRow(layer, held), rows[s] * shape_.in_width, in_.data() + r.query_start.back() * shape_.in_width);
    held += inputs.held_rows[s];
    r.query_start.push_back(r.query_start.back() + rows[s]);
    r.context_len.push_back(inputs.context_len[s] - inputs.held_rows[s] + rows[s]);
    const auto blocks = inputs.state_blocks.begin() + static_cast<std::ptrdiff_t>(s) * inputs.state_stride;
    r.state_blocks.insert(r.state_blocks.end(), blocks, blocks + inputs.state_stride);
  }
  Recur(layer, weights, r, cache);
}

kernels::StateView CpuMixers::StatesAt(int64_t offset, const StepInputs& inputs, const KvCache& cache) const {
  return {.pool = cache.pool(),
          .block_stride = cache.block_bytes(),
          .blocks = inputs.state_blocks.data(),
          .blocks_per_state = inputs.state_stride,
          .offset = offset,
          .query_start = inputs.query_start.data(),
          .context_len = inputs.context_len.data(),
          .num_sequences = inputs.num_sequences(),
          .held = inputs.held_rows.empty() ? nullptr : inputs.held_rows.data(),
          .bytes_of_block = cache.own_bytes()};
}

/// Computes out() without the norms, and advances the states.
void CpuMixers::Recur(int64_t layer, const MixerWeights& weights, const StepInputs& inputs, const KvCache& cache) {
  const StateLayout::Layer& place = states_.layer(layer);
  const kernels::StateView convolution = StatesAt(place.convolution_at, inputs, cache);
  if (shape_.mixer == Mixer::kShortConvolution) return Convolve(weights, convolution);
  ConvolveHeads(weights, convolution);
  const kernels::StateView heads = StatesAt(place.heads_at, inputs, cache);
  shape_.mixer == Mixer::kGatedDelta ? LearnByDelta(weights, heads) : ScanStates(weights, heads);
}

void CpuMixers::Convolve(const MixerWeights& weights, const kernels::StateView& state) {
  kernels::CausalConv(stream_, {.dtype = NumberType::kF32,
                                .x = in_.data() + 2 * shape_.out_width,
                                .in_gate = in_.data(),
                                .out_gate = in_.data() + shape_.out_width,
                                .x_stride = shape_.in_width,
                                .out = out_.data(),
                                .out_stride = shape_.out_width,
                                .weight = weights.taps.data(),
                                .channels = shape_.out_width,
                                .taps = spec_.recurrence.taps,
                                .silu = false,
                                .state = state});
}

void CpuMixers::ConvolveHeads(const MixerWeights& weights, const kernels::StateView& state) {
  kernels::CausalConv(stream_, {.dtype = NumberType::kF32,
                                .x = in_.data(),
                                .in_gate = nullptr,
                                .out_gate = nullptr,
                                .x_stride = shape_.in_width,
                                .out = in_.data(),
                                .out_stride = shape_.in_width,
                                .weight = weights.taps.data(),
                                .bias = DataOf(weights.taps_bias),
                                .channels = ConvolvedChannels(spec_, shard_),
                                .taps = spec_.recurrence.taps,
                                .silu = true,
                                .state = state});
}

void CpuMixers::LearnByDelta(const MixerWeights& weights, const kernels::StateView& heads) {
  const Recurrence& r = spec_.recurrence;
  kernels::GatedDelta(stream_, {.dtype = NumberType::kF32,
                                .queries = in_.data(),
                                .keys = in_.data() + shape_.keys,
                                .values = in_.data() + shape_.values,
                                .row_stride = shape_.in_width,
                                .betas = in_.data() + shape_.betas,
                                .decays = in_.data() + shape_.decays,
                                .gate_stride = shape_.in_width,
                                .rate = weights.rate.data(),
                                .bias = weights.decay_bias.data(),
                                .out = out_.data(),
                                .key_heads = shard_.key_heads.size(),
                                .value_heads = shard_.value_heads.size(),
                                .key_dim = r.key_dim,
                                .value_dim = r.value_dim,
                                .state = heads});
}

void CpuMixers::ScanStates(const MixerWeights& weights, const kernels::StateView& heads) {
  const Recurrence& r = spec_.recurrence;
  kernels::StateSpace(stream_, {.dtype = NumberType::kF32,
                                .queries = in_.data(),
                                .keys = in_.data() + shape_.keys,
                                .values = in_.data() + shape_.values,
                                .row_stride = shape_.in_width,
                                .steps = in_.data() + shape_.decays,
                                .rate = weights.rate.data(),
                                .bias = weights.decay_bias.data(),
                                .skip = weights.skip.data(),
                                .out = out_.data(),
                                .value_heads = shard_.value_heads.size(),
                                .heads_per_key = r.heads_per_key(),
                                .first_head = shard_.value_heads.begin - shard_.key_heads.begin * r.heads_per_key(),
                                .key_dim = r.key_dim,
                                .value_dim = r.value_dim,
                                .state = heads});
}

/// Normalizes each value head on its own, and multiplies it by silu(gate).
void CpuMixers::NormHeads(const std::vector<float>& weight, int64_t tokens) {
  kernels::GatedNorm(stream_, {NumberType::kF32, out_.data(), in_.data() + shape_.gates, weight.data(), tokens,
                               shard_.value_heads.size(), spec_.recurrence.value_dim, shape_.in_width,
                               static_cast<float>(spec_.norm_epsilon)});
}

void CpuMixers::GateSquares(const float* gates, int64_t tokens) {
  const Recurrence& r = spec_.recurrence;
  kernels::GateSquares(stream_, {.dtype = NumberType::kF32,
                                 .rows = out_.data(),
                                 .gates = gates,
                                 .num_tokens = tokens,
                                 .columns = shape_.out_width,
                                 .gate_stride = shape_.in_width,
                                 .first = shard_.value_heads.begin * r.value_dim,
                                 .group_size = r.heads_per_key() * r.value_dim,
                                 .num_groups = r.key_heads,
                                 .squares = squares_.data()});
}

/// Gates the value heads, and norms those of each key head together, even if several ranks hold parts of them.
/// Recurrence::norm says whether the norm comes after the gate, before it, or not at all.
void CpuMixers::NormGroups(const std::vector<float>& weight, int64_t tokens) {
  const Recurrence& r = spec_.recurrence;
  const int64_t groups = r.key_heads, group_size = r.heads_per_key() * r.value_dim, all = tokens * groups;
  const float* gates = in_.data() + shape_.gates;
  GateSquares(r.norm == StateNorm::kBeforeGate ? nullptr : gates, tokens);
  if (r.norm == StateNorm::kNone) return;
  float* squares = squares_.data();
  if (collective_.size() > 1) {
    squares += all;
    std::fill_n(squares, all, 0.0f);
    collective_.AllReduceAdd({squares_.data(), static_cast<size_t>(all)}, {squares, static_cast<size_t>(all)});
  }
  kernels::WideNorm(
      stream_, {NumberType::kF32, out_.data(), weight.data(), squares, tokens, shape_.out_width, shape_.out_width,
                groups, group_size, static_cast<float>(spec_.norm_epsilon), shard_.value_heads.begin * r.value_dim});
  if (r.norm == StateNorm::kBeforeGate) GateSquares(gates, tokens);
}

}  // namespace quire

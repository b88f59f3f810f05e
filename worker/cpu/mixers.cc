#include "worker/cpu/mixers.h"

#include <algorithm>

#include "comm/base/error.h"
#include "kernels/causal_conv.h"
#include "kernels/gate_squares.h"
#include "kernels/gated_delta.h"
#include "kernels/gated_norm.h"
#include "kernels/state_space.h"
#include "kernels/wide_norm.h"

namespace quire {

namespace {

kernels::StateView StatesOf(const StepInputs& inputs, const KvCache& cache, int64_t offset) {
  return {.pool = cache.pool(),
          .block_stride = cache.block_bytes(),
          .blocks = inputs.state_blocks.data(),
          .blocks_per_state = inputs.state_stride,
          .offset = offset,
          .query_start = inputs.query_start.data(),
          .context_len = inputs.context_len.data(),
          .num_sequences = inputs.num_sequences()};
}

}  // namespace

CpuMixers::CpuMixers(const ModelSpec& spec, const RankShard& shard, const kernels::CpuStream& stream,
                     Collective& collective, int64_t max_tokens)
    : spec_(spec), shard_(shard), stream_(stream), collective_(collective), states_(spec, shard), shape_(spec, shard) {
  in_.resize(static_cast<size_t>(max_tokens * shape_.in_width));
  out_.resize(static_cast<size_t>(max_tokens * shape_.out_width));
  if (shape_.mixer == Mixer::kStateSpace)
    squares_.resize(static_cast<size_t>(2 * max_tokens * spec.recurrence.key_heads));
}

void CpuMixers::Mix(int64_t layer, const MixerWeights& weights, const StepInputs& inputs, const KvCache& cache) {
  const StateLayout::Layer& place = states_.layer(layer);
  const kernels::StateView convolution = StatesOf(inputs, cache, place.convolution_at);
  const kernels::StateView heads = StatesOf(inputs, cache, place.heads_at);
  switch (shape_.mixer) {
    case Mixer::kNone:
    case Mixer::kAttention:
      Fail("layer {} keeps no state", layer);
    case Mixer::kShortConvolution:
      if (shape_.in_width > 0) Convolve(weights, convolution);
      return;
    case Mixer::kGatedDelta:
      if (shape_.in_width == 0) return;
      ConvolveHeads(weights, convolution);
      return LearnByDelta(weights, heads);
    case Mixer::kStateSpace:
      if (shape_.in_width > 0) {
        ConvolveHeads(weights, convolution);
        ScanStates(weights, heads);
      }
      return NormGroups(weights.vectors.norm, inputs.num_tokens());
  }
}

void CpuMixers::Convolve(const MixerWeights& weights, const kernels::StateView& state) {
  kernels::CausalConv(stream_, {.dtype = NumberType::kF32,
                                .x = in_.data() + 2 * shape_.out_width,
                                .in_gate = in_.data(),
                                .out_gate = in_.data() + shape_.out_width,
                                .x_stride = shape_.in_width,
                                .out = out_.data(),
                                .out_stride = shape_.out_width,
                                .weight = weights.vectors.taps.data(),
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
                                .weight = weights.vectors.taps.data(),
                                .bias = DataOf(weights.vectors.taps_bias),
                                .channels = ConvolvedChannels(spec_, shard_),
                                .taps = spec_.recurrence.taps,
                                .silu = true,
                                .state = state});
}

void CpuMixers::LearnByDelta(const MixerWeights& weights, const kernels::StateView& heads) {
  const Recurrence& r = spec_.recurrence;
  const int64_t value_heads = shard_.value_heads.size();
  kernels::GatedDelta(stream_, {.dtype = NumberType::kF32,
                                .queries = in_.data(),
                                .keys = in_.data() + shape_.keys,
                                .values = in_.data() + shape_.values,
                                .row_stride = shape_.in_width,
                                .betas = in_.data() + shape_.betas,
                                .decays = in_.data() + shape_.decays,
                                .gate_stride = shape_.in_width,
                                .rate = weights.vectors.rate.data(),
                                .bias = weights.vectors.decay_bias.data(),
                                .out = out_.data(),
                                .key_heads = shard_.key_heads.size(),
                                .value_heads = value_heads,
                                .key_dim = r.key_dim,
                                .value_dim = r.value_dim,
                                .state = heads});
  const int64_t tokens = heads.query_start[heads.num_sequences];
  kernels::GatedNorm(stream_,
                     {NumberType::kF32, out_.data(), in_.data() + shape_.gates, weights.vectors.norm.data(), tokens,
                      value_heads, r.value_dim, shape_.in_width, static_cast<float>(spec_.norm_epsilon)});
}

void CpuMixers::ScanStates(const MixerWeights& weights, const kernels::StateView& heads) {
  const Recurrence& r = spec_.recurrence;
  kernels::StateSpace(stream_, {.dtype = NumberType::kF32,
                                .queries = in_.data(),
                                .keys = in_.data() + shape_.keys,
                                .values = in_.data() + shape_.values,
                                .row_stride = shape_.in_width,
                                .steps = in_.data() + shape_.decays,
                                .rate = weights.vectors.rate.data(),
                                .bias = weights.vectors.decay_bias.data(),
                                .skip = weights.vectors.skip.data(),
                                .out = out_.data(),
                                .value_heads = shard_.value_heads.size(),
                                .heads_per_key = r.heads_per_key(),
                                .first_head = shard_.value_heads.begin - shard_.key_heads.begin * r.heads_per_key(),
                                .key_dim = r.key_dim,
                                .value_dim = r.value_dim,
                                .state = heads});
}

/// Norms the value heads of each key head together, even if several ranks hold parts of them.
void CpuMixers::NormGroups(const std::vector<float>& weight, int64_t tokens) {
  const Recurrence& r = spec_.recurrence;
  const int64_t groups = r.key_heads, group_size = r.heads_per_key() * r.value_dim, all = tokens * groups;
  kernels::GateSquares(stream_, {.dtype = NumberType::kF32,
                                 .rows = out_.data(),
                                 .gates = in_.data() + shape_.gates,
                                 .num_tokens = tokens,
                                 .columns = shape_.out_width,
                                 .gate_stride = shape_.in_width,
                                 .first = shard_.value_heads.begin * r.value_dim,
                                 .group_size = group_size,
                                 .num_groups = groups,
                                 .squares = squares_.data()});
  float* squares = squares_.data();
  if (collective_.size() > 1) {
    squares += all;
    std::fill_n(squares, all, 0.0f);
    collective_.AllReduceAdd({squares_.data(), static_cast<size_t>(all)}, {squares, static_cast<size_t>(all)});
  }
  kernels::WideNorm(
      stream_, {NumberType::kF32, out_.data(), weight.data(), squares, tokens, shape_.out_width, shape_.out_width,
                groups, group_size, static_cast<float>(spec_.norm_epsilon), shard_.value_heads.begin * r.value_dim});
}

}  // namespace quire

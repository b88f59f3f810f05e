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

/// Of the layers that keep a state, which are all alike; attention where there are none.
Mixer MixerOf(const ModelSpec& spec) {
  const auto layer = std::ranges::find_if(spec.layers, &LayerSpec::has_state);
  return layer == spec.layers.end() ? Mixer::kAttention : layer->mixer;
}

}  // namespace

CpuMixers::CpuMixers(const ModelSpec& spec, const RankShard& shard, const kernels::CpuStream& stream,
                     Collective& collective, int64_t max_tokens)
    : spec_(spec), shard_(shard), stream_(stream), collective_(collective), states_(spec, shard) {
  if (spec.num_state_layers() == 0) return;
  const Recurrence& r = spec.recurrence;
  if (r.channels > 0) {
    out_width_ = shard.channels.size();
    in_width_ = 3 * out_width_;
  } else {
    out_width_ = shard.value_heads.size() * r.value_dim;
    in_width_ = PlacesOfHeads().decays + shard.value_heads.size();
  }
  in_.resize(static_cast<size_t>(max_tokens * in_width_));
  out_.resize(static_cast<size_t>(max_tokens * out_width_));
  if (MixerOf(spec) == Mixer::kStateSpace) squares_.resize(static_cast<size_t>(2 * max_tokens * r.key_heads));
}

CpuMixers::Places CpuMixers::PlacesOfHeads() const {
  const int64_t keys = shard_.key_heads.size() * spec_.recurrence.key_dim, gates = ConvolvedChannels(spec_, shard_);
  const int64_t num_betas = MixerOf(spec_) == Mixer::kGatedDelta ? shard_.value_heads.size() : 0;
  const int64_t betas = gates + out_width_;
  return {.keys = keys, .values = 2 * keys, .gates = gates, .betas = betas, .decays = betas + num_betas};
}

void CpuMixers::Mix(int64_t layer, const MixerWeights& weights, const StepInputs& inputs, const KvCache& cache) {
  const StateLayout::Layer& place = states_.layer(layer);
  const kernels::StateView convolution = StatesOf(inputs, cache, place.convolution_at);
  const kernels::StateView heads = StatesOf(inputs, cache, place.heads_at);
  switch (MixerOf(spec_)) {
    case Mixer::kAttention:
      Fail("layer {} keeps no state", layer);
    case Mixer::kShortConvolution:
      if (in_width_ > 0) Convolve(weights, convolution);
      return;
    case Mixer::kGatedDelta:
      if (in_width_ == 0) return;
      ConvolveHeads(weights, convolution);
      return LearnByDelta(weights, heads);
    case Mixer::kStateSpace:
      if (in_width_ > 0) {
        ConvolveHeads(weights, convolution);
        ScanStates(weights, heads);
      }
      return NormGroups(weights.norm, inputs.num_tokens());
  }
}

void CpuMixers::Convolve(const MixerWeights& weights, const kernels::StateView& state) {
  kernels::CausalConv(stream_, {.dtype = NumberType::kF32,
                                .x = in_.data() + 2 * out_width_,
                                .in_gate = in_.data(),
                                .out_gate = in_.data() + out_width_,
                                .x_stride = in_width_,
                                .out = out_.data(),
                                .out_stride = out_width_,
                                .weight = weights.taps.data(),
                                .channels = out_width_,
                                .taps = spec_.recurrence.taps,
                                .silu = false,
                                .state = state});
}

void CpuMixers::ConvolveHeads(const MixerWeights& weights, const kernels::StateView& state) {
  kernels::CausalConv(stream_, {.dtype = NumberType::kF32,
                                .x = in_.data(),
                                .in_gate = nullptr,
                                .out_gate = nullptr,
                                .x_stride = in_width_,
                                .out = in_.data(),
                                .out_stride = in_width_,
                                .weight = weights.taps.data(),
                                .bias = DataOf(weights.taps_bias),
                                .channels = ConvolvedChannels(spec_, shard_),
                                .taps = spec_.recurrence.taps,
                                .silu = true,
                                .state = state});
}

void CpuMixers::LearnByDelta(const MixerWeights& weights, const kernels::StateView& heads) {
  const Recurrence& r = spec_.recurrence;
  const Places at = PlacesOfHeads();
  const int64_t value_heads = shard_.value_heads.size();
  kernels::GatedDelta(stream_, {.dtype = NumberType::kF32,
                                .queries = in_.data(),
                                .keys = in_.data() + at.keys,
                                .values = in_.data() + at.values,
                                .row_stride = in_width_,
                                .betas = in_.data() + at.betas,
                                .decays = in_.data() + at.decays,
                                .gate_stride = in_width_,
                                .rate = weights.rate.data(),
                                .bias = weights.decay_bias.data(),
                                .out = out_.data(),
                                .key_heads = shard_.key_heads.size(),
                                .value_heads = value_heads,
                                .key_dim = r.key_dim,
                                .value_dim = r.value_dim,
                                .state = heads});
  const int64_t tokens = heads.query_start[heads.num_sequences];
  kernels::GatedNorm(stream_, {NumberType::kF32, out_.data(), in_.data() + at.gates, weights.norm.data(), tokens,
                               value_heads, r.value_dim, in_width_, static_cast<float>(spec_.norm_epsilon)});
}

void CpuMixers::ScanStates(const MixerWeights& weights, const kernels::StateView& heads) {
  const Recurrence& r = spec_.recurrence;
  const Places at = PlacesOfHeads();
  kernels::StateSpace(stream_, {.dtype = NumberType::kF32,
                                .queries = in_.data(),
                                .keys = in_.data() + at.keys,
                                .values = in_.data() + at.values,
                                .row_stride = in_width_,
                                .steps = in_.data() + at.decays,
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

/// Value heads that share a key head are normed together, also where several ranks have some of them.
void CpuMixers::NormGroups(const std::vector<float>& weight, int64_t tokens) {
  const Recurrence& r = spec_.recurrence;
  const int64_t groups = r.key_heads, group_size = r.heads_per_key() * r.value_dim, all = tokens * groups;
  const kernels::GateSquaresParams gated = {.dtype = NumberType::kF32,
                                            .rows = out_.data(),
                                            .gates = in_.data() + PlacesOfHeads().gates,
                                            .num_tokens = tokens,
                                            .columns = out_width_,
                                            .gate_stride = in_width_,
                                            .first = shard_.value_heads.begin * r.value_dim,
                                            .group_size = group_size,
                                            .num_groups = groups,
                                            .squares = squares_.data()};
  kernels::GateSquares(stream_, gated);
  float* squares = squares_.data();
  if (collective_.size() > 1) {
    squares += all;
    std::fill_n(squares, all, 0.0f);
    collective_.AllReduceAdd({squares_.data(), static_cast<size_t>(all)}, {squares, static_cast<size_t>(all)});
  }
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t begin = gated.begin(group), count = gated.begin(group + 1) - begin;
    if (count == 0) continue;
    kernels::WideNorm(stream_, {out_.data() + begin, weight.data() + begin, squares + group, tokens, count, out_width_,
                                groups, group_size, static_cast<float>(spec_.norm_epsilon)});
  }
}

}  // namespace quire

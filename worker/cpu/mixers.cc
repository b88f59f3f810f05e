#include "worker/cpu/mixers.h"

#include "kernels/causal_conv.h"
#include "kernels/gated_delta.h"
#include "kernels/gated_norm.h"

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
                     int64_t max_tokens)
    : spec_(spec), shard_(shard), stream_(stream), states_(spec, shard) {
  if (spec.num_state_layers() == 0) return;
  const Recurrence& r = spec.recurrence;
  if (r.channels > 0) {
    out_width_ = shard.channels.size();
    in_width_ = 3 * out_width_;
  } else {
    const int64_t value_heads = shard.value_heads(r).size();
    out_width_ = value_heads * r.value_dim;
    in_width_ = ConvolvedChannels(spec, shard) + out_width_ + 2 * value_heads;
  }
  in_.resize(static_cast<size_t>(max_tokens * in_width_));
  out_.resize(static_cast<size_t>(max_tokens * out_width_));
}

void CpuMixers::Mix(int64_t layer, const MixerWeights& weights, const StepInputs& inputs, const KvCache& cache) {
  if (in_width_ == 0) return;
  const StateLayout::Layer& place = states_.layer(layer);
  const kernels::StateView convolution = StatesOf(inputs, cache, place.convolution_at);
  if (spec_.layers[static_cast<size_t>(layer)].mixer == Mixer::kShortConvolution) {
    Convolve(weights, convolution);
  } else {
    Recur(weights, convolution, StatesOf(inputs, cache, place.heads_at));
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

void CpuMixers::Recur(const MixerWeights& weights, const kernels::StateView& convolution,
                      const kernels::StateView& heads) {
  const Recurrence& r = spec_.recurrence;
  const int64_t key_heads = shard_.key_heads.size(), value_heads = shard_.value_heads(r).size();
  float* const queries = in_.data();
  float* const keys = queries + key_heads * r.key_dim;
  float* const values = keys + key_heads * r.key_dim;
  float* const gates = values + out_width_;
  float* const betas = gates + out_width_;
  kernels::CausalConv(stream_, {.dtype = NumberType::kF32,
                                .x = queries,
                                .in_gate = nullptr,
                                .out_gate = nullptr,
                                .x_stride = in_width_,
                                .out = queries,
                                .out_stride = in_width_,
                                .weight = weights.taps.data(),
                                .channels = ConvolvedChannels(spec_, shard_),
                                .taps = r.taps,
                                .silu = true,
                                .state = convolution});
  kernels::GatedDelta(stream_, {.dtype = NumberType::kF32,
                                .queries = queries,
                                .keys = keys,
                                .values = values,
                                .row_stride = in_width_,
                                .betas = betas,
                                .decays = betas + value_heads,
                                .gate_stride = in_width_,
                                .rate = weights.rate.data(),
                                .bias = weights.decay_bias.data(),
                                .out = out_.data(),
                                .key_heads = key_heads,
                                .value_heads = value_heads,
                                .key_dim = r.key_dim,
                                .value_dim = r.value_dim,
                                .state = heads});
  const int64_t tokens = heads.query_start[heads.num_sequences];
  kernels::GatedNorm(stream_, {NumberType::kF32, out_.data(), gates, weights.norm.data(), tokens, value_heads,
                               r.value_dim, in_width_, static_cast<float>(spec_.norm_epsilon)});
}

}  // namespace quire

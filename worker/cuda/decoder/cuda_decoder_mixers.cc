// CudaDecoder's operations for layers with a recurrent state.
#include "comm/base/error.h"
#include "kernels/causal_conv.h"
#include "kernels/gate_squares.h"
#include "kernels/gated_delta.h"
#include "kernels/gated_norm.h"
#include "kernels/state_space.h"
#include "kernels/wide_norm.h"
#include "worker/cuda/decoder/cuda_decoder.h"

namespace quire {

void CudaDecoder::NormMixerIn(int64_t layer) {
  const Activations& a = memory_.activations;
  const CudaLayerWeights& w = weights(layer);
  const void* x = Normed(w.attention_norm, w.attention_norm_bias);
  const int64_t width = memory_.mixers.in_stride;
  if (width > 0) products_.Run(Product(x, a.hidden, w.mixer.in, memory_.mixers.in, width, shape_.num_rows));
}

void CudaDecoder::MixTokens(int64_t layer) {
  const MixerShape& shape = memory_.mixers.shape;
  const bool there = shape.in_width > 0;  // false: other ranks have the whole layer
  switch (shape.mixer) {
    case Mixer::kShortConvolution:
      if (there) Convolve(layer);
      return;
    case Mixer::kGatedDelta:
      if (!there) return;
      ConvolveHeads(layer);
      return LearnByDelta(layer);
    case Mixer::kStateSpace:
      if (there) {
        ConvolveHeads(layer);
        ScanStates(layer);
      }
      return NormGroups(layer);
    case Mixer::kNone:
    case Mixer::kAttention:
    case Mixer::kAttentionAndStateSpace:  // shape.mixer is then kStateSpace
      Fail("layer {} keeps no state", layer);
  }
}

void CudaDecoder::AddMixed(int64_t layer) {
  const CudaLayerWeights& w = weights(layer);
  AddProduct(memory_.mixers.out, memory_.mixers.shape.out_width, {w.mixer.out}, nullptr, w.attention_after_norm, 1);
}

kernels::StateView CudaDecoder::StatesAt(int64_t offset) const {
  return {.pool = cache_->pool(),
          .block_stride = cache_->block_bytes(),
          .blocks = step_->arrays.state_blocks,
          .blocks_per_state = sizes_.state_blocks,
          .offset = offset,
          .query_start = step_->arrays.state_start,
          .context_len = step_->arrays.state_context,
          .num_sequences = shape_.num_decodes + shape_.num_chunks};
}

void CudaDecoder::Convolve(int64_t layer) {
  const CudaMixerActivations& m = memory_.mixers;
  const int64_t channels = m.shape.out_width, element = ByteSize(sizes_.dtype);
  const auto* in = static_cast<const std::byte*>(m.in);
  kernels::CausalConv(device_.stream(), {.dtype = sizes_.dtype,
                                         .x = in + 2 * channels * element,
                                         .in_gate = in,
                                         .out_gate = in + channels * element,
                                         .x_stride = m.in_stride,
                                         .out = m.out,
                                         .out_stride = channels,
                                         .weight = weights(layer).mixer.taps,
                                         .channels = channels,
                                         .taps = spec_.recurrence.taps,
                                         .silu = false,
                                         .state = StatesAt(states_.layer(layer).convolution_at)});
}

void CudaDecoder::ConvolveHeads(int64_t layer) {
  const CudaMixerActivations& m = memory_.mixers;
  const CudaMixerWeights& w = weights(layer).mixer;
  kernels::CausalConv(device_.stream(), {.dtype = sizes_.dtype,
                                         .x = m.in,
                                         .in_gate = nullptr,
                                         .out_gate = nullptr,
                                         .x_stride = m.in_stride,
                                         .out = m.in,
                                         .out_stride = m.in_stride,
                                         .weight = w.taps,
                                         .bias = w.taps_bias,
                                         .channels = ConvolvedChannels(spec_, sizes_.shard),
                                         .taps = spec_.recurrence.taps,
                                         .silu = true,
                                         .state = StatesAt(states_.layer(layer).convolution_at)});
}

void CudaDecoder::LearnByDelta(int64_t layer) {
  const CudaMixerActivations& m = memory_.mixers;
  const CudaMixerWeights& w = weights(layer).mixer;
  const Recurrence& r = spec_.recurrence;
  const auto in = [&](int64_t place) { return static_cast<std::byte*>(m.in) + place * ByteSize(sizes_.dtype); };
  const int64_t value_heads = sizes_.shard.value_heads.size();
  kernels::GatedDelta(device_.stream(), {.dtype = sizes_.dtype,
                                         .queries = m.in,
                                         .keys = in(m.shape.keys),
                                         .values = in(m.shape.values),
                                         .row_stride = m.in_stride,
                                         .betas = in(m.shape.betas),
                                         .decays = in(m.shape.decays),
                                         .gate_stride = m.in_stride,
                                         .rate = w.rate,
                                         .bias = w.decay_bias,
                                         .out = m.out,
                                         .key_heads = sizes_.shard.key_heads.size(),
                                         .value_heads = value_heads,
                                         .key_dim = r.key_dim,
                                         .value_dim = r.value_dim,
                                         .state = StatesAt(states_.layer(layer).heads_at)});
  kernels::GatedNorm(device_.stream(), {sizes_.dtype, m.out, in(m.shape.gates), w.norm, shape_.num_rows, value_heads,
                                        r.value_dim, m.in_stride, static_cast<float>(spec_.norm_epsilon)});
}

void CudaDecoder::ScanStates(int64_t layer) {
  const CudaMixerActivations& m = memory_.mixers;
  const CudaMixerWeights& w = weights(layer).mixer;
  const Recurrence& r = spec_.recurrence;
  const RankShard& shard = sizes_.shard;
  const auto in = [&](int64_t place) { return static_cast<std::byte*>(m.in) + place * ByteSize(sizes_.dtype); };
  kernels::StateSpace(device_.stream(),
                      {.dtype = sizes_.dtype,
                       .queries = m.in,
                       .keys = in(m.shape.keys),
                       .values = in(m.shape.values),
                       .row_stride = m.in_stride,
                       .steps = in(m.shape.decays),
                       .rate = w.rate,
                       .bias = w.decay_bias,
                       .skip = w.skip,
                       .out = m.out,
                       .value_heads = shard.value_heads.size(),
                       .heads_per_key = r.heads_per_key(),
                       .first_head = shard.value_heads.begin - shard.key_heads.begin * r.heads_per_key(),
                       .key_dim = r.key_dim,
                       .value_dim = r.value_dim,
                       .state = StatesAt(states_.layer(layer).heads_at)});
}

void CudaDecoder::NormGroups(int64_t layer) {
  const CudaMixerActivations& m = memory_.mixers;
  const Recurrence& r = spec_.recurrence;
  const int64_t groups = r.key_heads, group_size = r.heads_per_key() * r.value_dim;
  const int64_t first = sizes_.shard.value_heads.begin * r.value_dim, width = m.shape.out_width;
  const auto* in = static_cast<const std::byte*>(m.in);
  kernels::GateSquares(device_.stream(), {.dtype = sizes_.dtype,
                                          .rows = m.out,
                                          .gates = in + m.shape.gates * ByteSize(sizes_.dtype),
                                          .num_tokens = shape_.num_rows,
                                          .columns = width,
                                          .gate_stride = m.in_stride,
                                          .first = first,
                                          .group_size = group_size,
                                          .num_groups = groups,
                                          .squares = m.squares});
  if (collective_ != nullptr) {
    collective_->AllReduceSum(m.squares, shape_.num_rows * groups, NumberType::kF32, device_.stream().handle);
  }
  kernels::WideNorm(device_.stream(),
                    {sizes_.dtype, m.out, weights(layer).mixer.norm, m.squares, shape_.num_rows, width, width, groups,
                     group_size, static_cast<float>(spec_.norm_epsilon), first});
}

}  // namespace quire

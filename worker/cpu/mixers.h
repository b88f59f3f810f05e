#pragma once

#include <cstdint>
#include <vector>

#include "kernels/state_view.h"
#include "kernels/stream.h"
#include "worker/cpu/kv_cache.h"
#include "worker/cpu/step_inputs.h"
#include "worker/cpu/weights.h"
#include "worker/model/state_layout.h"

namespace quire {

/// What layers that keep a state do between their products, on the CPU, and what they keep of a step's T tokens
/// meanwhile. Of models without such layers, and of ranks that have none of their heads, nothing is kept or done.
class CpuMixers {
 public:
  /// `spec`, `shard` and `stream` outlive it.
  CpuMixers(const ModelSpec& spec, const RankShard& shard, const kernels::CpuStream& stream, int64_t max_tokens);

  /// Of one sequence's state on this rank.
  int64_t state_bytes() const { return states_.bytes; }

  /// [T, in_width]: the products of the norm with MixerWeights::in, in that order. Mix may overwrite them.
  float* in() { return in_.data(); }
  int64_t in_width() const { return in_width_; }

  /// out = what the layer makes of `in` and of the states of the step's sequences, which go on to those after their
  /// new tokens.
  void Mix(int64_t layer, const MixerWeights& weights, const StepInputs& inputs, const KvCache& cache);

  /// [T, local channels, or local value heads times value_dim]
  const float* out() const { return out_.data(); }

 private:
  void Convolve(const MixerWeights& weights, const kernels::StateView& state);
  void Recur(const MixerWeights& weights, const kernels::StateView& convolution, const kernels::StateView& heads);

  const ModelSpec& spec_;
  const RankShard& shard_;
  const kernels::CpuStream& stream_;
  StateLayout states_;
  int64_t in_width_ = 0, out_width_ = 0;
  std::vector<float> in_, out_;
};

}  // namespace quire

#pragma once

#include <cstdint>
#include <vector>

#include "comm/collective/collective.h"
#include "kernels/state_view.h"
#include "kernels/stream.h"
#include "worker/cpu/kv_cache.h"
#include "worker/cpu/step_inputs.h"
#include "worker/cpu/weights.h"
#include "worker/model/mixer_shape.h"
#include "worker/model/state_layout.h"

namespace quire {

/// What layers that keep a state do between their products, on the CPU, and what they keep of a step's T tokens
/// meanwhile. Of models without such layers, and of ranks that have none of their heads, nothing is kept or done.
class CpuMixers {
 public:
  /// The references outlive it.
  CpuMixers(const ModelSpec& spec, const RankShard& shard, const kernels::CpuStream& stream, Collective& collective,
            int64_t max_tokens);

  /// Of one sequence's state on this rank.
  int64_t state_bytes() const { return states_.bytes; }

  /// [T, in_width], in the order of MixerShape. Mix may overwrite them.
  float* in() { return in_.data(); }
  int64_t in_width() const { return shape_.in_width; }

  /// out = what the layer makes of `in` and of the states of the step's sequences, which go on to those after their
  /// new tokens. Ranks norm what state spaces give together: all of them make the call.
  void Mix(int64_t layer, const MixerWeights& weights, const StepInputs& inputs, const KvCache& cache);

  /// [T, local channels, or local value heads times value_dim]
  const float* out() const { return out_.data(); }

 private:
  void Convolve(const MixerWeights& weights, const kernels::StateView& state);
  void ConvolveHeads(const MixerWeights& weights, const kernels::StateView& state);
  void LearnByDelta(const MixerWeights& weights, const kernels::StateView& heads);
  void ScanStates(const MixerWeights& weights, const kernels::StateView& heads);
  void NormGroups(const std::vector<float>& weight, int64_t tokens);

  const ModelSpec& spec_;
  const RankShard& shard_;
  const kernels::CpuStream& stream_;
  Collective& collective_;
  StateLayout states_;
  MixerShape shape_;
  std::vector<float> in_, out_;
  std::vector<float> squares_;  // of state spaces, [T, groups] twice: this rank's part, and the sum
};

}  // namespace quire

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

/// Computes, on the CPU, the part of a layer with a recurrent state between the layer's two products, and owns the
/// buffers for a step's T tokens. Models without such layers, and ranks without heads of such layers, use no memory
/// here.
class CpuMixers {
 public:
  /// The references must outlive the object.
  CpuMixers(const ModelSpec& spec, const RankShard& shard, const kernels::CpuStream& stream, Collective& collective,
            int64_t max_tokens);

  /// Returns the bytes of one sequence's state on this rank.
  int64_t state_bytes() const { return states_.bytes; }

  /// Returns the input rows [T, in_width], in the order of MixerShape. Mix may overwrite them.
  float* in() { return in_.data(); }
  int64_t in_width() const { return shape_.in_width; }

  /// Computes out() from in() and the states of the step's sequences, and advances these states past the new tokens.
  /// Every rank must call it, because the ranks norm the outputs of state spaces together.
  void Mix(int64_t layer, const MixerWeights& weights, const StepInputs& inputs, const KvCache& cache);

  /// Returns the output rows: [T, local channels], or [T, local value heads * value_dim].
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
  std::vector<float> squares_;  // for state spaces: [2, T, groups], sums of squares of this rank, then of all ranks
};

}  // namespace quire

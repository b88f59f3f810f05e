#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/collective/collective.h"
#include "kernels/state_view.h"
#include "kernels/stream.h"
#include "worker/cpu/kv_cache.h"
#include "worker/cpu/step_inputs.h"
#include "worker/cpu/weights.h"
#include "worker/engine/engine_sizes.h"
#include "worker/engine/memory.h"
#include "worker/model/mixer_shape.h"
#include "worker/model/state_layout.h"

namespace quire {

/// Computes, on the CPU, the part of a layer with a recurrent state between the layer's two products, and owns the
/// buffers for a step's T tokens. Models without such layers, and ranks without heads of such layers, use no memory for
/// the buffers.
class CpuMixers {
 public:
  /// The references must outlive the object.
  CpuMixers(const ModelSpec& spec, const RankShard& shard, const kernels::CpuStream& stream, Collective& collective,
            const EngineSizes& sizes);

  /// Returns the bytes of the buffers, with the input rows of a step's sequences with drafts in all layers.
  static int64_t Bytes(const ModelSpec& spec, const RankShard& shard, const EngineSizes& sizes);

  /// Returns the bytes of one sequence's state on this rank.
  int64_t state_bytes() const { return states_.bytes; }

  /// Returns the input rows [T, in_width], in the order of MixerShape. Mix may overwrite them.
  float* in() { return in_.data(); }
  int64_t in_width() const { return shape_.in_width; }

  /// Computes out() from in() and the states of the step's sequences, and advances these states past the new tokens.
  /// Sequences with drafts are an exception: their input rows are stored ("held"), and their states stay unchanged
  /// until AdvanceHeld, because drafts may be wrong. A collective call: the ranks norm the outputs of state spaces
  /// together.
  void Mix(int64_t layer, const MixerWeights& weights, const StepInputs& inputs, const KvCache& cache);
  /// Advances, in one layer, the states of sequences with held rows past the first rows[s] of these rows. The states
  /// then have the same bits as after a step that computes only these first rows. Call it once for each layer after a
  /// step with held rows, with the inputs of the step.
  void AdvanceHeld(int64_t layer, const MixerWeights& weights, const StepInputs& inputs, std::span<const int32_t> rows,
                   const KvCache& cache);

  /// Returns the output rows: [T, local channels], or [T, local value heads * value_dim].
  const float* out() const { return out_.data(); }

 private:
  kernels::StateView StatesAt(int64_t offset, const StepInputs& inputs, const KvCache& cache) const;
  float* HeldRow(int64_t layer, int64_t row);
  void Hold(int64_t layer, const StepInputs& inputs);
  void Recur(int64_t layer, const MixerWeights& weights, const StepInputs& inputs, const KvCache& cache);
  void Convolve(const MixerWeights& weights, const kernels::StateView& state);
  void ConvolveHeads(const MixerWeights& weights, const kernels::StateView& state);
  void LearnByDelta(const MixerWeights& weights, const kernels::StateView& heads);
  void ScanStates(const MixerWeights& weights, const kernels::StateView& heads);
  void NormHeads(const std::vector<float>& weight, int64_t tokens);
  void NormGroups(const std::vector<float>& weight, int64_t tokens);
  /// Multiplies the output rows by SiLU of the gates, or with `gates` null leaves them, and sets squares_ to this
  /// rank's sums of squares.
  void GateSquares(const float* gates, int64_t tokens);

  const ModelSpec& spec_;
  const RankShard& shard_;
  const kernels::CpuStream& stream_;
  Collective& collective_;
  StateLayout states_;
  MixerShape shape_;
  std::vector<float> in_, out_;
  std::vector<float> factors_;  // [in_width]: factors of the input rows; empty: none
  int64_t max_held_;            // most rows of a step's sequences with drafts
  HostMemory held_;             // [layers with a state, max_held_, in_width]: input rows of sequences with drafts
  StepInputs remains_;          // the held rows that AdvanceHeld computes
  std::vector<float> squares_;  // state spaces: [2, T, groups], sums of squares of this rank and of all ranks
};

}  // namespace quire

#pragma once

#include <span>
#include <vector>

#include "comm/collective/collective.h"
#include "comm/model/model_files.h"
#include "kernels/matmul.h"
#include "worker/cpu/cpu_activations.h"
#include "worker/cpu/expert_activations.h"
#include "worker/cpu/kv_cache.h"
#include "worker/cpu/latents.h"
#include "worker/cpu/mixers.h"
#include "worker/cpu/step_inputs.h"
#include "worker/cpu/weights.h"
#include "worker/engine/engine_sizes.h"
#include "worker/model/decoder.h"

namespace quire {

/// One rank's part of the forward pass on the CPU. Activations are fp32 whatever the weights are.
class CpuDecoder final : private DecoderOps {
 public:
  CpuDecoder(const ModelFiles& files, const RankShard& shard, const kernels::CpuStream& stream, Collective& collective,
             const EngineSizes& sizes);

  /// Computes the step's tokens, writes their keys and values into the cache, and returns this rank's logits of the
  /// drawing rows: [draw_rows, local vocab], valid until the next call. Every rank calls it with the same inputs.
  std::span<float> Forward(const StepInputs& inputs, const KvCache& cache);

  /// After Forward: this rank's logits of `count` of the step's tokens from row `row` on: [count, local vocab], valid
  /// until the next call of either.
  std::span<float> LogitsOfRows(int64_t row, int64_t count);
  /// Likewise the normed last activations of such rows, the same on all ranks: [count, hidden].
  std::span<const float> NormedRows(int64_t row, int64_t count) const;

  const ModelWeights& weights() const { return weights_; }
  int64_t state_bytes() const { return mixers_.state_bytes(); }

 private:
  void Embed() override;
  void NormQkv(int64_t layer) override;
  void PositionAndStore(int64_t layer) override;
  void Attend(int64_t layer) override;
  void AddAttention(int64_t layer) override;
  void NormMixerIn(int64_t layer) override;
  void MixTokens(int64_t layer) override;
  void AddMixed(int64_t layer) override;
  void NormMlpIn(int64_t layer) override;
  void AddMlp(int64_t layer) override;
  void NormRoute(int64_t layer) override;
  void AddExperts(int64_t layer) override;
  void AddAttentionAndMlp(int64_t layer) override;
  void AddLayerInput(int64_t layer) override;
  void Logits() override;

  const LayerSpec& LayerOf(int64_t layer) const { return spec_.layers[static_cast<size_t>(layer)]; }
  int64_t HeadsWidth(int64_t layer) const { return shard_.heads.size() * LayerOf(layer).head_dim; }
  const LayerWeights& weights(int64_t layer) const { return weights_.layers[static_cast<size_t>(layer)]; }
  /// logits_ = normed rows [rows, hidden] * head^T, scaled and capped.
  void MultiplyHead(const float* rows, int64_t count);
  /// norm(residual), or the residual itself where there is no norm, i.e. no weight.
  const float* Normed(const NormWeights& weights);
  void Norm(const NormWeights& weights, float* out);  // out = norm(residual)
  /// What the chosen experts make of experts_in_, each row by itself; and out = the sum of it and of what the shared
  /// one gives.
  void MultiplyExperts(const MixtureWeights& weights);
  void CombineExperts(const float* shared, float* out);
  /// out = what the shared expert makes of experts_in_.
  void MultiplyShared(const MixtureWeights& weights, float* out);
  /// AddExperts with Mixture::normed_apart.
  void AddExpertsNormedApart(int64_t layer);
  /// The layer's scale for what its MLP adds: with an input of its own, the layer adds once more.
  float ScaleAfterMlp(int64_t layer) const { return spec_.layer_input_size > 0 ? 1 : weights(layer).scale; }
  void NormQueriesAndKeys(int64_t layer);
  void Matmul(const float* x, const Matrices& weights, float* y, int64_t y_stride, int64_t m,
              kernels::Activations activations);
  /// Adds `bias` to the first numbers of `count` rows, `stride` floats apart.
  void AddBias(const std::vector<float>& bias, float* rows, int64_t count, int64_t stride);
  /// out = this rank's part of x * weight^T + bias, which rank 0 adds; of `count` rows.
  void MultiplyOut(const float* x, const Matrices& weight, const std::vector<float>& bias, int64_t count, float* out);
  /// AddToResidual of what MultiplyOut gives, some rows at a time where each is added as it is.
  void AddProduct(const float* x, const Matrices& weight, const std::vector<float>& bias,
                  const std::vector<float>& after_norm, float scale = 1);
  void MakeLayerInputs();  // of the step's tokens, beside the residual
  /// residual += delta, summed over the ranks and then normed where there is a norm, and multiplied by `scale` then.
  void AddToResidual(const std::vector<float>& after_norm, float scale = 1);
  void AddDelta(int64_t row, int64_t rows);  // delta's first rows, to the residual's from `row` on
  void AddNormOfDelta(const std::vector<float>& weight, float scale);

  ModelSpec spec_;
  RankShard shard_;
  const kernels::CpuStream& stream_;
  Collective& collective_;
  ModelWeights weights_;
  kernels::Activations activations_;
  std::vector<std::vector<float>> ropes_;        // [max_model_len, rotated_dims] each: cosines, sines
  std::vector<std::vector<float>> query_ropes_;  // the same of queries that grow; empty where they do not
  std::vector<float> alibi_slopes_;              // of local heads; empty for none
  std::vector<float> ones_;                      // [largest head_dim]: weights of the norm of values; empty for none
  // The step under way.
  const StepInputs* inputs_ = nullptr;
  const KvCache* cache_ = nullptr;
  int64_t tokens_ = 0;
  CpuActivations buffers_;
  const float* experts_in_ = nullptr;  // [T, hidden]: what is multiplied next, buffers_.normed or .residual
  ExpertActivations experts_;          // of layers with a mixture
  CpuMixers mixers_;
  CpuLatents latents_;
  std::vector<float> logits_;  // [R, local vocab], or of the rows that were asked for last
};

}  // namespace quire

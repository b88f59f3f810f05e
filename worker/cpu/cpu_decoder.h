#pragma once

#include <span>
#include <vector>

#include "comm/collective/collective.h"
#include "comm/collective/stage_link.h"
#include "comm/model/model_files.h"
#include "kernels/matmul.h"
#include "worker/cpu/cpu_activations.h"
#include "worker/cpu/cpu_adapters.h"
#include "worker/cpu/expert_activations.h"
#include "worker/cpu/kv_cache.h"
#include "worker/cpu/latents.h"
#include "worker/cpu/mixers.h"
#include "worker/cpu/step_inputs.h"
#include "worker/cpu/weights.h"
#include "worker/engine/engine_sizes.h"
#include "worker/model/decoder.h"

namespace quire {

/// The ranks with which a rank of the CPU computes.
struct CpuPeers {
  Collective& stage;          // the ranks that share each layer with it
  StageLink* link = nullptr;  // its neighbours in a pipeline; null: no pipeline
};

/// One rank's part of the forward pass on the CPU. Activations are fp32 for every type of weights.
class CpuDecoder final : private DecoderOps {
 public:
  CpuDecoder(const ModelFiles& files, const RankShard& shard, const kernels::CpuStream& stream, const CpuPeers& peers,
             const EngineSizes& sizes);

  /// Runs the step: writes the tokens' keys and values into the cache and returns this rank's logits of the rows that
  /// draw: [draw_rows, local vocab], valid until the next call; nothing for models that only pool, and before the last
  /// stage of a pipeline. Every rank calls this with the same inputs.
  std::span<float> Forward(const StepInputs& inputs, const KvCache& cache);

  /// Advances the states of the last step's sequences with drafts past the tokens that remain: rows[s] of sequence s.
  /// Call it after a step with StepInputs::held_rows, whose inputs must still be there.
  void AdvanceStates(std::span<const int32_t> rows);

  /// Returns this rank's logits of the step's rows [row, row + count): [count, local vocab], valid until the next call
  /// of this function or of Forward. Call it after Forward.
  std::span<float> LogitsOfRows(int64_t row, int64_t count);
  /// Returns the normed last activations of rows [row, row + count): [count, hidden], equal on all ranks. Call it after
  /// Forward.
  std::span<const float> NormedRows(int64_t row, int64_t count) const;

  /// Returns the numbers of the step's rows [row, row + count) that PoolsEachToken(pooling) asks for: [count, hidden],
  /// [count] or [count, PooledHead::colbert]. Valid until the next call. Call it after Forward.
  std::span<const float> TokenRows(Pooling pooling, int64_t row, int64_t count);

  const ModelWeights& weights() const { return weights_; }
  bool has_head() const { return !weights_.head.empty(); }
  const CpuAdapters& adapters() const { return adapters_; }
  CpuAdapters& adapters() { return adapters_; }
  int64_t state_bytes() const { return mixers_.state_bytes(); }
  /// Returns the bytes that steps with drafts take beside all that is allocated when the object is made.
  int64_t held_bytes() const { return mixers_.held_bytes(); }

 private:
  void Embed() override;
  void TakeRows() override;
  void GiveRows() override;
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
  /// Returns which numbers of a step's residual the rank at `place` of the stage gives or takes.
  Range PartOfRows(int place) const;
  /// logits_ = rows [count, hidden] (already normed) * head^T + bias, scaled and capped. `adapters`: of each row, or
  /// empty.
  void MultiplyHead(const float* rows, int64_t count, std::span<const int32_t> adapters);
  /// Returns norm(residual) in buffers_.normed, or the residual itself if the norm has no weights.
  const float* Normed(const NormWeights& weights);
  /// Returns the input of attention or of the MLP: Normed, or the residual itself in models that norm sums.
  const float* NormedInput(const NormWeights& weights);
  void NormSum(const NormWeights& weights);           // residual = norm(residual), in models that norm sums
  void AddTokenTypes();                               // adds the vectors of the tokens' types to the residual
  void Norm(const NormWeights& weights, float* out);  // out = norm(residual)
  /// MultiplyExperts computes the chosen experts' outputs for experts_in_, one row per token and expert. CombineExperts
  /// then sets `out` to their weighted sum plus the shared expert's output `shared` (null: no shared expert).
  void MultiplyExperts(int64_t layer);
  void CombineExperts(const float* shared, float* out);
  /// out = the shared expert's output for experts_in_.
  void MultiplyShared(int64_t layer, float* out);
  /// Adds the mixture as AddExperts does, in models with Mixture::normed_apart.
  void AddExpertsNormedApart(int64_t layer);
  /// Returns the layer scale to apply after the MLP. The result is 1 in models with layer inputs, where AddLayerInput
  /// applies the scale.
  float ScaleAfterMlp(int64_t layer) const { return spec_.layer_input_size > 0 ? 1 : weights(layer).scale; }
  void NormQueriesAndKeys(int64_t layer);
  void Matmul(const float* x, const Matrices& weights, float* y, int64_t y_stride, int64_t m,
              kernels::Activations activations);
  /// Adds `bias` to the leading numbers of `count` rows that are `stride` floats apart.
  void AddBias(const std::vector<float>& bias, float* rows, int64_t count, int64_t stride);
  struct Rows {  // the rows of a step
    int64_t first, count;
  };
  /// A product whose result joins the residual: x [T, weight's columns], the weight, and the bias that rank 0 adds.
  struct OutProduct {
    const float* x;
    const Matrices& weight;
    const std::vector<float>& bias;
    AdaptedProduct adapted;
  };
  /// out = this rank's part of the product for some rows.
  void MultiplyOut(int64_t layer, const OutProduct& product, Rows rows, float* out);
  /// Calls MultiplyOut, then AddToResidual; kRowsTogether rows at a time unless a norm stands in between.
  void AddProduct(int64_t layer, const OutProduct& product, const std::vector<float>& after_norm, float scale = 1);
  /// The adapters of rows of the step, one for each; empty: no row of the step has one.
  std::span<const int32_t> AdaptersOf(Rows rows) const;
  /// Adds to a product what its rows' adapters add to it. x and y begin with the first of the rows.
  void AddAdapters(AdaptedProduct product, int64_t layer, const float* x, int64_t x_stride,
                   std::span<const int32_t> adapters, float* y, int64_t y_stride);
  /// The same for the products of experts, whose rows are those of ExpertActivations. With `of_tokens`, x has a row for
  /// each token, else one for each row of y.
  void AddExpertAdapters(AdaptedProduct product, int64_t layer, const float* x, int64_t x_stride, bool of_tokens,
                         float* y, int64_t y_stride);
  void EmbedAdapters();  // changes the rows of the residual whose adapters change the embedding
  /// Replaces logits of rows whose adapters have a head, or rows of it, of their own.
  void ReplaceLogits(const float* rows, std::span<const int32_t> adapters);
  void MakeLayerInputs();  // fills buffers_.layer_inputs for the step's tokens
  /// residual += delta, summed over the ranks. With `after_norm`, the sum is normed first, and `scale` multiplies the
  /// result.
  void AddToResidual(const std::vector<float>& after_norm, float scale = 1);
  void AddDelta(int64_t row, int64_t rows);  // adds the first `rows` rows of delta to the residual's rows from `row` on
  void AddNormOfDelta(const std::vector<float>& weight, float scale);

  ModelSpec spec_;
  RankShard shard_;
  const kernels::CpuStream& stream_;
  Collective& collective_;  // the ranks of its stage
  StageLink* const link_;
  ModelWeights weights_;
  CpuAdapters adapters_;
  kernels::Activations activations_;
  std::vector<std::vector<float>> ropes_;        // per rotation: [max_model_len, rotated_dims], cosines, then sines
  std::vector<std::vector<float>> query_ropes_;  // the same for queries that grow with position; else empty
  std::vector<float> alibi_slopes_;              // one per local head; empty: no ALiBi
  std::vector<float> relative_bias_;             // [local heads, distances]; empty: no RelativeBias
  std::vector<float> ones_;                      // [largest head_dim], all 1: weights of the norm of values, if any
  // The members down to experts_in_ belong to the step that Forward computes.
  const StepInputs* inputs_ = nullptr;
  const KvCache* cache_ = nullptr;
  int64_t tokens_ = 0;
  CpuActivations buffers_;
  const float* experts_in_ = nullptr;  // [T, hidden]: input of the next product, buffers_.normed or .residual
  ExpertActivations experts_;          // buffers of layers with a mixture
  CpuMixers mixers_;
  CpuLatents latents_;
  std::vector<int32_t> adapter_rows_, adapter_x_rows_;  // rows that AddAdapters reads
  std::vector<kernels::LowRankGroup> adapter_groups_;
  std::vector<int32_t> head_adapters_;  // [R]
  std::vector<float> token_rows_;       // the rows of the last TokenRows
  std::vector<float> logits_;           // [R, local vocab], or the rows of the last LogitsOfRows
};

}  // namespace quire

#pragma once

#include <span>
#include <vector>

#include "comm/collective/collective.h"
#include "comm/collective/stage_link.h"
#include "comm/model/model_files.h"
#include "kernels/embedding.h"
#include "kernels/matmul.h"
#include "worker/cpu/context_chunks.h"
#include "worker/cpu/cpu_activations.h"
#include "worker/cpu/cpu_adapters.h"
#include "worker/cpu/expert_activations.h"
#include "worker/cpu/kept_rows.h"
#include "worker/cpu/kv_cache.h"
#include "worker/cpu/latents.h"
#include "worker/cpu/mixers.h"
#include "worker/cpu/step_inputs.h"
#include "worker/cpu/weights.h"
#include "worker/engine/engine_sizes.h"
#include "worker/model/decoder.h"
#include "worker/model/mapped_pages.h"

namespace quire {

/// The ranks with which a CPU rank computes.
struct CpuPeers {
  Collective& stage;          // the ranks that share each layer with this rank
  StageLink* link = nullptr;  // leads to the neighbours in a pipeline; null: no pipeline
};

/// One rank's part of the forward pass on the CPU. Activations are fp32 for every type of weights.
class CpuDecoder final : private DecoderOps {
 public:
  /// `head`: passed on to ModelWeights as `other_head`; null: this object packs its own output head.
  CpuDecoder(const ModelFiles& files, const RankShard& shard, const kernels::CpuStream& stream, const CpuPeers& peers,
             const EngineSizes& sizes, const Matrices* head = nullptr);

  /// Runs the step: writes the tokens' keys and values into the cache, and makes the rows that LogitsOfDraws reads.
  /// Every rank calls this with the same inputs.
  void Forward(const StepInputs& inputs, const KvCache& cache);

  /// Returns this rank's logits of rows [first, first + count): [count, local vocab]. The row numbers count only rows
  /// after which a token is sampled (StepInputs::draw_rows). The logits are valid until the next call of this function
  /// or of LogitsOfRows. Call this function after Forward, in the last stage of a pipeline; not for models that only
  /// pool.
  std::span<float> LogitsOfDraws(int64_t first, int64_t count);

  /// Computes one stage of an encoder's pass for consecutive rows of one text; the pass is divided into slices (Slice).
  /// `inputs` has these rows, and the text's length as its context. `kept` has the text's activations. In a pipeline, a
  /// rank computes only its own layers. After the last stage of all rows, NormedRows and TokenRows read the rows of
  /// `kept`. Every rank calls this with the same inputs.
  void ForwardSlice(const StepInputs& inputs, const KvCache& cache, int64_t pass_stage, KeptRows& kept);

  /// Advances the recurrent states of the last step's sequences with drafts. The state of sequence s passes the
  /// sequence's first rows[s] tokens, which remain after verification. Call it after a step with StepInputs::held_rows,
  /// while the StepInputs of that step still exist.
  void AdvanceStates(std::span<const int32_t> rows);

  /// Returns this rank's logits of the step's rows [row, row + count): [count, local vocab], valid until the next call
  /// of this function or of LogitsOfDraws. Call it after Forward.
  std::span<float> LogitsOfRows(int64_t row, int64_t count);
  /// Returns the normed activations after the last layer for rows [row, row + count): [count, hidden], equal on all
  /// ranks. Call it after Forward or ForwardSlice.
  std::span<const float> NormedRows(int64_t row, int64_t count) const;

  /// Returns the numbers that PoolsEachToken(pooling) needs of the step's rows [row, row + count): [count, hidden],
  /// [count] or [count, PooledHead::colbert]. The numbers are valid until the next call. Call it after Forward or
  /// ForwardSlice. Throws Error if the model has no layer for this pooling.
  std::span<const float> TokenRows(Pooling pooling, int64_t row, int64_t count);

  const ModelWeights& weights() const { return weights_; }
  bool has_head() const { return !weights_.head.empty(); }
  const CpuAdapters& adapters() const { return adapters_; }
  CpuAdapters& adapters() { return adapters_; }
  int64_t state_bytes() const { return mixers_.state_bytes(); }

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

  /// Calls kernels::Embedding with parts of the rows, so that few pages of the table's file are mapped at a time.
  void LookUp(const kernels::EmbeddingParams& params);
  const LayerSpec& LayerOf(int64_t layer) const { return spec_.layers[static_cast<size_t>(layer)]; }
  /// Returns how many numbers attention computes on this rank for one token.
  int64_t HeadsWidth(int64_t layer) const { return shard_.heads.size() * LayerOf(layer).value_size(); }
  /// Spreads values that are shorter than keys, in the rows of buffers_.qkv, to the size of keys, with zeros.
  void SpreadValues(int64_t layer);
  const LayerWeights& weights(int64_t layer) const { return weights_.layers[static_cast<size_t>(layer)]; }
  /// Returns the range of the step's residual, in floats, that the rank with index `place` in the stage sends or
  /// receives.
  Range PartOfRows(int place) const;
  /// Computes logits_ = rows [count, hidden] (already normed) * head^T + bias, scaled and capped. `adapters`: one
  /// number per row, or empty.
  void MultiplyHead(const float* rows, int64_t count, std::span<const int32_t> adapters);
  /// Returns norm(residual) in buffers_.normed, or the residual itself if the norm has no weights.
  const float* Normed(const NormWeights& weights);
  /// Returns the input of attention or of the MLP: Normed(weights), or the residual itself in models that norm the
  /// residual after each addition.
  const float* NormedInput(const NormWeights& weights);
  void NormSum(const NormWeights& weights);           // residual = norm(residual), in models that norm the sums
  void AddTokenTypes();                               // adds the vectors of the tokens' types to the residual
  void Norm(const NormWeights& weights, float* out);  // out = norm(residual)
  /// MultiplyExperts computes the chosen experts' outputs for experts_in_, one row per token and expert. CombineExperts
  /// then sets `out` to their weighted sum plus the shared expert's output `shared` (null: no shared expert).
  void MultiplyExperts(int64_t layer);
  void CombineExperts(const float* shared, float* out);
  /// Computes out = the shared expert's output for experts_in_.
  void MultiplyShared(int64_t layer, float* out);
  /// Adds the mixture's output to the residual as AddExperts does, for models with Mixture::normed_apart.
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
  /// A product with a result that joins the residual: x [T, weight's columns], the weight, and the bias that rank 0
  /// adds.
  struct OutProduct {
    const float* x;
    const Matrices& weight;
    const std::vector<float>& bias;
    WeightPlace adapted;
    double scale = 1;  // factor of the result (ProductScales)
  };
  /// Computes out = this rank's part of the product for the given rows.
  void MultiplyOut(int64_t layer, const OutProduct& product, Rows rows, float* out);
  /// Calls MultiplyOut and then AddToResidual for all rows: kRowsTogether rows at a time, or all rows together if the
  /// product is normed before it joins the residual.
  void AddProduct(int64_t layer, const OutProduct& product, const std::vector<float>& after_norm, float scale = 1);
  /// Returns the adapters of the given rows of the step, one number per row; empty: no row of the step has an adapter.
  std::span<const int32_t> AdaptersOf(Rows rows) const;
  /// Adds to a product the parts that its rows' adapters contribute. x and y begin with the first of the rows.
  void AddAdapters(WeightPlace product, int64_t layer, const float* x, int64_t x_stride,
                   std::span<const int32_t> adapters, float* y, int64_t y_stride);
  /// Does what AddAdapters does for the products of experts, whose rows are those of ExpertActivations. With
  /// `of_tokens`, x has one row per token, otherwise one row per row of y.
  void AddExpertAdapters(WeightPlace product, int64_t layer, const float* x, int64_t x_stride, bool of_tokens, float* y,
                         int64_t y_stride);
  void EmbedAdapters();  // changes the rows of the residual whose adapters change the embedding
  /// Replaces the logits that adapters compute themselves: all logits of a row whose adapter has an output head of its
  /// own, or those of the head's rows that the adapter replaces.
  void ReplaceLogits(const float* rows, std::span<const int32_t> adapters);
  void JoinHidden();       // makes a prediction layer's input from the residual and StepInputs::hidden
  void MakeLayerInputs();  // fills buffers_.layer_inputs for the step's tokens
  /// Adds delta, summed over the ranks, to the residual. With `after_norm`, the sum is normed first and multiplied by
  /// `scale`.
  void AddToResidual(const std::vector<float>& after_norm, float scale = 1);
  /// Adds the first `rows` rows of delta, multiplied by `factor` and ModelSpec::residual_scale, to the residual's rows
  /// from `row` on.
  void AddDelta(int64_t row, int64_t rows, double factor = 1);
  void AddNormOfDelta(const std::vector<float>& weight, float scale);

  ModelSpec spec_;
  RankShard shard_;
  const kernels::CpuStream& stream_;
  Collective& collective_;  // the ranks of this rank's stage
  StageLink* const link_;
  ModelWeights weights_;
  MappedPages pages_;
  CpuAdapters adapters_;
  kernels::Activations activations_;
  std::vector<std::vector<float>> ropes_;        // per rotation: [max_model_len, rotated_dims], cosines, then sines
  std::vector<std::vector<float>> query_ropes_;  // the same for queries that grow with position; empty: no queries grow
  std::vector<float> alibi_slopes_;              // one per local head; empty: no ALiBi
  std::vector<float> relative_bias_;             // [local heads, distances]; empty: no RelativeBias
  std::vector<float> gate_factors_;              // [most MLP columns of a layer], ProductScales::mlp_gate; empty: 1
  std::vector<float> ones_;                      // [largest head_dim], all 1: weights of norms without weights, if any
  // The members down to experts_in_ belong to the step that Forward computes.
  const StepInputs* inputs_ = nullptr;
  ContextChunks chunks_;  // the parts of the step's sequences, for layers with LayerSpec::chunk
  const KvCache* cache_ = nullptr;
  int64_t tokens_ = 0;
  CpuActivations buffers_;
  const float* normed_ = nullptr;      // rows of NormedRows: buffers_.normed, or those of a text in slices
  const float* experts_in_ = nullptr;  // [T, hidden]: input of the next product, buffers_.normed or .residual
  ExpertActivations experts_;          // buffers of layers with a mixture
  CpuMixers mixers_;
  CpuLatents latents_;
  std::vector<int32_t> adapter_rows_, adapter_x_rows_;  // arguments of the adapters' products in AddAdapters
  std::vector<kernels::LowRankGroup> adapter_groups_;
  std::vector<int32_t> head_adapters_;  // [R]
  std::vector<float> joined_;           // [T, 2 * hidden]: normed embeddings and hidden states of JoinHidden
  std::vector<float> token_rows_;       // rows of the last call of TokenRows
  std::vector<float> logits_;           // the rows of the last call of LogitsOfDraws or LogitsOfRows
};

}  // namespace quire

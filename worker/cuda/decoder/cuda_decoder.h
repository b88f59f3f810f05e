#pragma once

#include <functional>
#include <map>
#include <set>

#include "comm/model/model_files.h"
#include "kernels/state_view.h"
#include "kernels/weight.h"
#include "worker/cuda/decoder/activations.h"
#include "worker/cuda/decoder/cuda_kv_cache.h"
#include "worker/cuda/decoder/expert_activations.h"
#include "worker/cuda/decoder/latent_activations.h"
#include "worker/cuda/decoder/mixer_activations.h"
#include "worker/cuda/decoder/products.h"
#include "worker/cuda/device/norming_collective.h"
#include "worker/cuda/step/step_shape.h"
#include "worker/cuda/weights/cuda_weights.h"
#include "worker/model/decoder.h"
#include "worker/model/state_layout.h"

namespace quire {

struct CudaDecoderSizes {
  RankShard shard;
  NumberType dtype;
  Quantization quantization;      // type that plain weights become
  int64_t max_tokens, max_draws;  // most of one step
  int64_t logits_width;           // most tokens and draws of one step
  int64_t max_model_len;
  std::vector<AttentionSizes> kinds;  // kinds of attention
  int64_t state_blocks;               // blocks of this rank's part of a sequence's state; 0: no state
  AttentionBackend attention;
  int64_t attention_workspace;  // number of floats
  int threads;                  // threads that load weights
};

/// One rank's part of the forward pass on its device. A layer's addition to the residual may stay pending: the next
/// norm then sums the addition over the ranks and adds it. In fused steps (few rows, one rank), the matrix products add
/// to the residual themselves.
class CudaDecoder final : private DecoderOps {
 public:
  /// Loads the weights and reserves the memory of a pass. `collective` must outlive the decoder; null: a single rank.
  CudaDecoder(const ModelFiles& files, const CudaDecoderSizes& sizes, Device& device, NormingCollective* collective,
              const std::function<void(int64_t, int64_t)>& progress);

  /// Queues the step. It writes new keys and values into the cache, and into logits() the logits of the rows for which
  /// tokens are sampled.
  void Forward(const StepShape& shape, const StepOnDevice& step, const CudaKvCache& cache);

  /// Queues the logits of `count` (at most max_draws) rows of the last step from `row` on. StepShape::keeps_rows must
  /// be true for the step. Overwrites logits().
  void LogitsOfRows(int64_t row, int64_t count);

  /// Returns the activations after the final norm, for the rows of the last step from `row` on. StepShape::keeps_rows
  /// must be true for the step. The activations are in device memory: [rows, hidden] of the model's type.
  const std::byte* NormedRows(int64_t row) const;

  /// Measures once which way of computing steps of `num_rows` rows is fastest. Overwrites activations. Must not run
  /// while a graph is captured.
  void Tune(int64_t num_rows);
  /// Chooses how to compute steps of `num_rows` rows, without measuring. `fused`: norms, residual and activation are
  /// computed inside our own products; false: by kernels of their own.
  void SetFused(int64_t num_rows, bool fused) { fused_of_[num_rows] = fused && CanFuse(num_rows); }

  float* logits() const { return memory_.activations.logits; }  // [max_draws, logits_width]
  const std::vector<std::string>& notes() const { return weights_.notes(); }
  int64_t weight_bytes() const { return weights_.bytes(); }

 private:
  struct Memory {
    Memory(const ModelSpec& spec, const CudaDecoderSizes& sizes, Pieces pieces);
    std::vector<float*> ropes;          // per rotation: [max_model_len, rotated_dims]
    std::vector<float*> query_ropes;    // like ropes, for queries that grow with position, or null
    std::vector<int32_t*> head_start;   // per kind of attention: [local kv heads + 1]
    std::vector<int32_t*> kv_head_of;   // per kind [local heads]: the local KV head of each head
    float* alibi_slopes;                // one per local head, or null
    float* head_bias;                   // [logits_width], zeros beyond the rank's vocabulary; or null
    float* workspace;                   // scratch of attention
    float* sinks;                       // [layers, local heads], or null
    float* router_bias;                 // [layers, router_width], zeros beyond the experts; or null
    float *correction, *expert_scales;  // [layers, experts], or null
    Activations activations;
    CudaExpertActivations experts;
    CudaMixerActivations mixers;
    CudaLatentActivations latents;
    int64_t bytes;
  };

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

  /// Returns the attention sinks of the layer's local heads, or null.
  const float* SinksOf(int64_t layer) const {
    return memory_.sinks == nullptr ? nullptr : memory_.sinks + layer * sizes_.shard.heads.size();
  }
  const LayerSpec& LayerOf(int64_t layer) const { return spec_.layers[static_cast<size_t>(layer)]; }
  // Returns how many numbers the queries of a row have on this rank.
  int64_t HeadsWidth(int64_t layer) const { return sizes_.shard.heads.size() * LayerOf(layer).head_dim; }
  /// Returns how many numbers a row of the input of attention's output projection has.
  int64_t OutWidth(int64_t layer) const {
    return spec_.latent.rank > 0 ? sizes_.shard.heads.size() * spec_.latent.value_dim : HeadsWidth(layer);
  }
  int64_t QkvWidth(int64_t layer) const { return Activations::QkvStride(spec_, sizes_.shard, layer); }
  int64_t MlpWidth(int64_t layer) const { return CudaWeights::MlpWidth(sizes_.shard, layer); }
  const CudaLayerWeights& weights(int64_t layer) const { return weights_.layers[static_cast<size_t>(layer)]; }
  void LoadTables(const ModelFiles& files);
  bool CanFuse(int64_t num_rows) const;
  bool IsFused(int64_t num_rows) const;
  // The next three functions compute the layer's attention for decodes or for chunks. `kind` is an index into
  // KindsOf(spec_).
  void AttendDecodes(int64_t layer, size_t kind);
  void AttendUnplanned(int64_t layer, size_t kind);  // decodes through v1 or v2
  void AttendChunks(int64_t layer, size_t kind);
  // These functions do the work of NormQkv, PositionAndStore and Attend in models with latent attention. AttendLatents
  // also makes the heads' values.
  void ProjectLatents(int64_t layer);
  void StoreLatents(int64_t layer);
  void AttendLatents(int64_t layer, size_t kind);
  void AttendLatentDecodes(int64_t layer, size_t kind);
  void AttendLatentChunks(int64_t layer, size_t kind);
  /// Returns a view of the step's states from byte `offset` of each state on.
  kernels::StateView StatesAt(int64_t offset) const;
  void Convolve(int64_t layer);
  void ConvolveHeads(int64_t layer);
  void LearnByDelta(int64_t layer);
  void ScanStates(int64_t layer);
  /// Normalizes the value heads of each key head together, even if several ranks hold parts of them.
  void NormGroups(int64_t layer);
  /// MultiplyExperts computes the outputs of the chosen experts for experts_in_ (into CudaExpertActivations::out).
  /// MultiplyShared computes the outputs of the shared expert (into `shared`).
  void MultiplyExperts(int64_t layer);
  void MultiplyShared(int64_t layer);
  /// activated [rows, width] = activation(gates) * ups, or, for experts without gates, activation(activated).
  void ActivateExperts(const void* gate_up, void* activated, int64_t rows, int64_t width, float limit);
  /// Sets `out` to the weighted sum of the chosen experts' outputs plus the part of `shared` that its gate lets
  /// through, all times the residual scale. `shared` is null without a shared expert.
  void CombineExperts(const void* shared, void* out);
  /// Adds the mixture as AddExperts does, in models with Mixture::normed_apart.
  void AddExpertsNormedApart(int64_t layer);
  /// Returns the sums of squares of the step's queries and keys over all ranks: [num_rows, 2].
  const float* SquaresOfAllRanks(int64_t layer);
  /// Computes the layer inputs of the step's tokens.
  void MakeLayerInputs();
  /// Returns `count` rows of `width` numbers in the form of a table for the operation Embedding.
  kernels::Weight Table(const void* rows, int64_t count, int64_t width) const;
  /// residual += residual_scale * x * weight^T + bias, either now or later as the pending addition. With after_norm,
  /// now: residual = (residual + norm(the sum over all ranks)) * scale.
  void AddProduct(const void* x, int64_t k, const DeviceMatrix& weight, const void* bias, const void* after_norm,
                  float scale);
  /// residual = (residual + norm(the sum over ranks of delta)) * scale.
  void AddNormOfDelta(const void* weight, float scale);
  /// Returns the layer scale to apply after the MLP. The result is 1 in models with layer inputs, where AddLayerInput
  /// applies the scale.
  float ScaleAfterMlp(int64_t layer) const { return spec_.layer_input_size > 0 ? 1 : weights(layer).scale; }
  /// out = this rank's part of residual_scale * x * weight^T; rank 0 also adds the bias (null: no bias).
  void MultiplyOut(const void* x, int64_t k, const DeviceMatrix& weight, const void* bias, void* out);
  /// residual += the pending addition, summed over all ranks; then normed = norm(residual).
  void Norm(const void* weight, const void* bias);
  /// logits = rows * head^T + bias, scaled and capped. `rows`: [count, hidden], after the final norm.
  void MultiplyHead(const void* rows, int64_t count);
  void CapLogits(int64_t count);
  /// Calls Norm and returns the normed rows; without a weight, returns the residual.
  const void* Normed(const void* weight, const void* bias);
  GemmParams Product(const void* x, int64_t k, const void* weight, void* y, int64_t n, int64_t m) const;
  GemmParams Product(const void* x, int64_t k, const DeviceMatrix& weight, void* y, int64_t n, int64_t m) const {
    GemmParams product = Product(x, k, weight.data, y, n, m);
    product.quantized = weight.quantized;
    return product;
  }
  kernels::SkinnyGemmParams Fused(const void* x, int64_t k, const void* norm, const void* weight, void* out, int64_t n,
                                  int64_t m, kernels::SkinnyEpilogue epilogue) const;

  ModelSpec spec_;
  CudaDecoderSizes sizes_;
  Device& device_;
  NormingCollective* collective_;
  CudaWeights weights_;
  Products products_;
  DeviceMemory reserved_;
  Memory memory_;
  std::vector<AttentionKind> kinds_;
  StateLayout states_;
  std::map<int64_t, bool> fused_of_;  // keyed by number of rows
  std::set<int64_t> tuned_;           // numbers of rows
  // The members below, up to pending_, belong to the step that is being queued.
  StepShape shape_;
  const StepOnDevice* step_ = nullptr;
  const CudaKvCache* cache_ = nullptr;
  bool fused_ = false;
  const void* experts_in_ = nullptr;  // [num_rows, hidden]: input of the layer's router or experts
  void* pending_ = nullptr;           // [num_rows, hidden], this rank's part of the pending addition; or null
};

}  // namespace quire

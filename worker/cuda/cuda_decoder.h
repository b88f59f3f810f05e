#pragma once

#include <functional>
#include <map>
#include <set>

#include "comm/model/model_files.h"
#include "kernels/state_view.h"
#include "kernels/weight.h"
#include "worker/cuda/activations.h"
#include "worker/cuda/cuda_kv_cache.h"
#include "worker/cuda/cuda_weights.h"
#include "worker/cuda/expert_activations.h"
#include "worker/cuda/mixer_activations.h"
#include "worker/cuda/norming_collective.h"
#include "worker/cuda/products.h"
#include "worker/cuda/step_shape.h"
#include "worker/model/decoder.h"
#include "worker/model/state_layout.h"

namespace quire {

struct CudaDecoderSizes {
  RankShard shard;
  NumberType dtype;
  Quantization quantization;      // of plain weights
  int64_t max_tokens, max_draws;  // of a step
  int64_t logits_width;           // of a row of logits, floats: a multiple of 8, at least the vocabulary of any rank
  int64_t max_model_len;
  std::vector<AttentionSizes> kinds;  // of attention
  int64_t state_blocks;               // that hold this rank's part of a sequence's state; 0: it has none
  AttentionBackend attention;
  int64_t attention_workspace;  // floats that attention needs
  int threads;                  // that load weights
};

/// One rank's part of the forward pass on its device. What a layer adds to the residual may be pending: the next norm
/// sums it over the ranks and adds it. In fused steps, few rows on one rank, products do all of that themselves.
class CudaDecoder final : private DecoderOps {
 public:
  /// Loads the weights and reserves what a pass needs. `collective` outlives it, and is null for a group of one.
  CudaDecoder(const ModelFiles& files, const CudaDecoderSizes& sizes, Device& device, NormingCollective* collective,
              const std::function<void(int64_t, int64_t)>& progress);

  /// Queues the step: new keys and values go into the cache, logits of the rows that draw into logits().
  void Forward(const StepShape& shape, const StepOnDevice& step, const CudaKvCache& cache);

  /// Queues the logits of `count` rows of the last step, which keeps them (StepShape::keeps_rows), from `row` on; at
  /// most max_draws. They take the place of those in logits().
  void LogitsOfRows(int64_t row, int64_t count);

  /// The normed last activations of such a step from row `row` on, on the device: [rows, hidden] of the model's type.
  const std::byte* NormedRows(int64_t row) const;

  /// Times, once for each number of rows, how to compute such steps. Overwrites activations; not inside a graph.
  void Tune(int64_t num_rows);
  /// Or says so: norms, residual and activation inside our own matrix products, or one kernel for each.
  void SetFused(int64_t num_rows, bool fused) { fused_of_[num_rows] = fused && CanFuse(num_rows); }

  float* logits() const { return memory_.activations.logits; }  // [max_draws, logits_width]
  const std::vector<std::string>& notes() const { return weights_.notes(); }
  int64_t weight_bytes() const { return weights_.bytes(); }

 private:
  struct Memory {
    Memory(const ModelSpec& spec, const CudaDecoderSizes& sizes, Pieces pieces);
    std::vector<float*> ropes;          // of each kind: [max_model_len, rotated_dims]
    std::vector<float*> query_ropes;    // the same of queries that grow, or null
    std::vector<int32_t*> head_start;   // of each kind of attention: [local kv heads + 1]
    std::vector<int32_t*> kv_head_of;   // likewise [local heads]: the local kv head that each reads
    float* alibi_slopes;                // of local heads, or null
    float* head_bias;                   // [logits_width], zeros beyond the rank's vocabulary; or null
    float* workspace;                   // of attention
    float* sinks;                       // [layers, local heads], or null
    float* router_bias;                 // [layers, router_width], zeros beyond the experts; or null
    float *correction, *expert_scales;  // [layers, experts], or null
    Activations activations;
    CudaExpertActivations experts;
    CudaMixerActivations mixers;
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

  /// Sinks of the layer's local heads, or null.
  const float* SinksOf(int64_t layer) const {
    return memory_.sinks == nullptr ? nullptr : memory_.sinks + layer * sizes_.shard.heads.size();
  }
  const LayerSpec& LayerOf(int64_t layer) const { return spec_.layers[static_cast<size_t>(layer)]; }
  // Numbers in a row of a layer's activations.
  int64_t HeadsWidth(int64_t layer) const { return sizes_.shard.heads.size() * LayerOf(layer).head_dim; }
  int64_t QkvWidth(int64_t layer) const { return quire::QkvWidth(spec_, sizes_.shard, layer); }
  int64_t MlpWidth(int64_t layer) const { return CudaWeights::MlpWidth(sizes_.shard, layer); }
  const CudaLayerWeights& weights(int64_t layer) const { return weights_.layers[static_cast<size_t>(layer)]; }
  void LoadTables(const ModelFiles& files);
  bool CanFuse(int64_t num_rows) const;
  bool IsFused(int64_t num_rows) const;
  // `kind` is an index into KindsOf(spec_).
  void AttendDecodes(int64_t layer, size_t kind);
  void AttendUnplanned(int64_t layer, size_t kind);  // decodes through v1 or v2
  void AttendChunks(int64_t layer, size_t kind);
  /// Parts of the states of the step's sequences that begin so many bytes into them.
  kernels::StateView StatesAt(int64_t offset) const;
  void Convolve(int64_t layer);
  void ConvolveHeads(int64_t layer);
  void LearnByDelta(int64_t layer);
  void ScanStates(int64_t layer);
  /// Value heads that share a key head are normed together, also where several ranks have some of them.
  void NormGroups(int64_t layer);
  /// What the chosen experts make of experts_in_: CudaExpertActivations::out; and the shared one: shared.
  void MultiplyExperts(int64_t layer);
  void MultiplyShared(int64_t layer);
  /// out = the sum of what the chosen experts gave and of `shared`, which may be null.
  void CombineExperts(const void* shared, void* out);
  /// AddExperts with Mixture::normed_apart.
  void AddExpertsNormedApart(int64_t layer);
  /// Sums of squares of the step's queries and keys, of all ranks: [num_rows, 2].
  const float* SquaresOfAllRanks(int64_t layer);
  /// Makes what layers get of the step's tokens beside the residual.
  void MakeLayerInputs();
  /// The table with these rows, each of so many numbers.
  kernels::Weight Table(const void* rows, int64_t count, int64_t width) const;
  /// residual += x * weight^T + bias, now or pending; or, now, the norm of that where there is one, and then times
  /// scale.
  void AddProduct(const void* x, int64_t k, const DeviceMatrix& weight, const void* bias, const void* after_norm,
                  float scale);
  /// residual = (residual + norm(the sum over ranks of delta)) * scale.
  void AddNormOfDelta(const void* weight, float scale);
  /// The layer's scale for what its MLP adds: with an input of its own, the layer adds once more.
  float ScaleAfterMlp(int64_t layer) const { return spec_.layer_input_size > 0 ? 1 : weights(layer).scale; }
  /// out = this rank's part of x * weight^T + bias, which rank 0 adds; bias may be null.
  void MultiplyOut(const void* x, int64_t k, const DeviceMatrix& weight, const void* bias, void* out);
  /// residual += the sum over ranks of what is pending; normed = norm(residual).
  void Norm(const void* weight, const void* bias);
  /// logits = normed rows [count, hidden] * head^T + bias, scaled and capped.
  void MultiplyHead(const void* rows, int64_t count);
  void CapLogits(int64_t count);
  /// The same where there is a norm, i.e. a weight; returns what it leaves: the normed rows or the residual.
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
  std::map<int64_t, bool> fused_of_;  // by number of rows
  std::set<int64_t> tuned_;           // numbers of rows
  // The step that is being queued.
  StepShape shape_;
  const StepOnDevice* step_ = nullptr;
  const CudaKvCache* cache_ = nullptr;
  bool fused_ = false;
  const void* experts_in_ = nullptr;  // [num_rows, hidden]: what the layer's router or experts read next
  void* pending_ = nullptr;           // [num_rows, hidden], this rank's part of what the residual lacks; or null
};

}  // namespace quire

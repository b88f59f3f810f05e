#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/model/model_files.h"
#include "comm/topology/compute_settings.h"
#include "kernels/packed_weight.h"
#include "worker/engine/memory.h"
#include "worker/model/mapped_pages.h"
#include "worker/model/shard.h"
#include "worker/model/weight_plan.h"
#include "worker/model/weight_slice.h"

namespace quire {

/// Matrices that are multiplied with the same x: y = x * W^T for each, with the results side by side. Each matrix may
/// have its own type.
using Matrices = std::vector<kernels::PackedWeight>;

/// The weight and bias of a norm, [hidden] each. An empty bias means that there is no bias; if both are empty, there is
/// no norm.
struct NormWeights {
  std::vector<float> weight, bias;
};

/// One rank's weights of a layer's mixture of experts. Members that the model lacks are empty.
struct MixtureWeights {
  Matrices router;                             // [experts, hidden], then [1, hidden] if the shared expert has a gate
  std::vector<float> router_bias, correction;  // [experts]
  std::vector<float> scales;                   // [experts]: factors of the experts' outputs
  // Weights that only models with Mixture::normed_apart have.
  NormWeights router_norm, experts_norm;
  std::vector<float> experts_after_norm, shared_after_norm;  // [hidden]
  std::vector<float> in_bias, down_bias;                     // [local experts, rows of in], [local experts, hidden]
  Matrices in;                      // for each local expert, gate (if any) and up: [local expert mlp, hidden]
  Matrices down;                    // for each local expert: [hidden, local expert mlp]
  Matrices shared_in, shared_down;  // first and last products of the shared expert
};

/// One rank's weights of a layer that keeps a recurrent state.
struct MixerWeights {
  Matrices in;                                // [parts of MixerShape's input row, hidden], in the order of the parts
  Matrices out;                               // [hidden, MixerShape::out_width]
  std::vector<float> taps;                    // [taps, ConvolvedChannels]; the oldest token's tap comes first
  std::vector<float> taps_bias;               // [ConvolvedChannels]; empty: no bias
  std::vector<float> rate, decay_bias, skip;  // [local value heads] of heads with a state; skip: only in state spaces
  std::vector<float> norm;                    // [value_dim]; in state spaces [local values]
};

/// One rank's weights of latent attention. LayerWeights::attention_out is the output projection.
struct LatentWeights {
  /// The projection to the queries' low-rank input [query_rank, hidden] (if any), then the projection to the row to
  /// cache [rank + rotated_dim, hidden], latents first.
  Matrices in;
  std::vector<float> query_norm;  // [query_rank]; empty: no low-rank input
  Matrices query;                 // [local heads * query_dim, query_rank or hidden]
  std::vector<float> norm;        // [rank]
  Matrices keys, values;          // for each local head: [rank, key_dim] and [value_dim, rank]
};

/// One rank's weights of one layer. Members that the model lacks are empty.
struct LayerWeights {
  NormWeights attention_norm;
  NormWeights mlp_norm;                                     // empty if attention and MLP share one norm
  std::vector<float> attention_after_norm, mlp_after_norm;  // [hidden]
  /// The rows of query heads, then the rows of key and value heads (unless the layer reads the keys and values of
  /// another layer), then the rows of the heads' gates if the model has gates: [heads * head_dim, hidden] each, local
  /// heads. Empty in a layer that keeps a state.
  Matrices qkv;
  LatentWeights latents;                    // weights of latent attention, which replace qkv
  std::vector<float> qkv_bias;              // one per row of qkv
  std::vector<float> query_norm, key_norm;  // [head_dim], or one number per row of the local heads
  Matrices attention_out;                   // [hidden, local heads * head_dim]
  std::vector<float> sinks;                 // one per local head
  std::vector<float> attention_out_bias;    // [hidden]
  Matrices mlp_in;                          // gate (if any), then up: [local mlp, hidden] each
  std::vector<float> up_bias;               // [local mlp]
  Matrices down;                            // [hidden, local mlp]
  std::vector<float> down_bias;             // [hidden]
  MixtureWeights mixture;                   // weights of a mixture of experts, which replace the MLP
  Matrices input_gate, input_out;           // [layer_input_size, hidden], [hidden, layer_input_size]
  std::vector<float> input_norm;            // [hidden]
  MixerWeights mixer;                       // weights of a recurrent state, which replace attention
  float scale = 1;                          // factor of the residual after the layer
};

/// Weights that make the inputs that each layer gets for each token besides the residual. All are empty in models
/// without layer inputs.
struct LayerInputWeights {
  kernels::Weight embedding;  // [vocab, layers * layer_input_size], whole, read in place from the mapped file
  Matrices projection;        // [layers * layer_input_size, hidden]
  std::vector<float> norm;    // [layer_input_size]: norm of the projection, divided by sqrt(2)
};

/// The weights that make a prediction layer's input from an embedding and a hidden state (ModelSpec::predicts). All are
/// empty in other models.
struct PredictionWeights {
  NormWeights token_norm, hidden_norm;
  Matrices in;  // [hidden, 2 * hidden], the columns of the embedding first
};

/// Returns the vector's data as a kernel's argument; null if the model lacks the vector.
inline const float* DataOf(const std::vector<float>& vector) { return vector.empty() ? nullptr : vector.data(); }

/// A rank's shard of the model, packed from the mapped files. Only the shard's bytes are read: for a pipeline's stage,
/// its layers, and the head in the last stage. worker/model/weight_plan.h says which weight goes where. A matrix is
/// packed in the type that FormOf (worker/model/stored_rows.h) returns, with these exceptions:
///  a quantised matrix whose column range would cut a packed block is expanded to fp32;
///  with quantization int8 or int4, unquantised matrices whose columns fill whole blocks become q8_0 or q4_1, as far as
///  the plan's Rounding allows.
class ModelWeights {
 public:
  /// `other_head`: the same output head, which another ModelWeights has already packed and which is used instead of
  /// packing the head again; null: none.
  ModelWeights(const ModelFiles& files, const RankShard& shard, Quantization quantization,
               const Matrices* other_head = nullptr)
      : ModelWeights(files, shard, quantization, Loading::kPack, other_head) {}

  /// Returns the bytes that bytes() would return, without reading a matrix.
  static int64_t Bytes(const ModelFiles& files, const RankShard& shard, Quantization quantization,
                       const Matrices* other_head = nullptr) {
    return ModelWeights(files, shard, quantization, Loading::kCount, other_head).bytes();
  }

  std::vector<LayerWeights> layers;  // by layer number in the model; empty for the layers of other stages
  NormWeights embedding_norm;        // empty: no such norm
  NormWeights final_norm;
  kernels::Weight embedding;    // [vocab, hidden], whole, read in place from the mapped file
  kernels::Weight positions;    // [positions, hidden], in the mapped file, from position 0 on; may have no rows
  kernels::Weight token_types;  // [token types, hidden], in the mapped file; no rows: the model has none
  LayerInputWeights layer_inputs;
  PredictionWeights prediction;
  Matrices head;                 // [local vocab, hidden]; empty: the model only pools, or another stage has the head
  std::vector<float> head_bias;  // [local vocab]; empty: no bias
  // The layers that return numbers for every token (PooledHead), in the last stage: [1, hidden] and
  // [PooledHead::colbert, hidden].
  Matrices sparse, colbert;
  std::vector<float> sparse_bias, colbert_bias;

  int64_t bytes() const { return bytes_; }
  /// Returns sentences for the log. Each says how many matrices take more memory than in the file for one reason, and
  /// names the reason.
  std::vector<std::string> Notes() const;

 private:
  enum class Loading { kPack, kCount };
  ModelWeights(const ModelFiles& files, const RankShard& shard, Quantization quantization, Loading loading,
               const Matrices* other_head);
  LayerWeights LoadLayer(const ModelFiles& files, const RankShard& shard, int64_t layer);
  void LoadOutsideLayers(const ModelFiles& files, const RankShard& shard, const Matrices* other_head);
  /// Appends the packed matrices of a planned weight to `to`: one for each part.
  void Pack(const ModelFiles& files, const RankShard& shard, const PlannedWeight& planned, int64_t layer,
            int64_t expert, Matrices& to);
  /// Appends the packed matrices of a weight that is planned for each head to `to`: one for each head.
  void PackByHead(const ModelFiles& files, const RankShard& shard, const PlannedWeight& planned, int64_t layer,
                  Matrices& to);
  kernels::PackedWeight Pack(const Tensor& tensor, const WeightSlice& slice, Rounding rounding);

  /// Returns the type to which a plain weight is converted; nullopt: its own.
  std::optional<NumberType> TypeOf(Rounding rounding) const;
  /// Returns the packed type for the given columns of a matrix stored in `form`.
  NumberType TypeFor(NumberType form, const WeightSlice& slice, Rounding rounding) const;

  const Loading loading_;
  std::string path_;
  MappedPages pages_;
  const std::optional<NumberType> wanted_;  // type that --quantization asks for, if any
  std::map<std::string, int> widened_;  // for each reason, the number of matrices that take more bits than in the file
  std::deque<HostMemory> storage_;
  int64_t bytes_ = 0;
};

}  // namespace quire

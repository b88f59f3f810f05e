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
#include "worker/model/mixer_weights.h"
#include "worker/model/shard.h"
#include "worker/model/weight_slice.h"

namespace quire {

/// Matrices that are multiplied with the same x, each of a storage type of its own: y = x * W^T, one after another.
using Matrices = std::vector<kernels::PackedWeight>;

/// [hidden] both; the bias empty for none, both where there is no norm.
struct NormWeights {
  std::vector<float> weight, bias;
};

/// One rank's weights of a layer's mixture.
struct MixtureWeights {
  Matrices router;                             // [experts, hidden] and, of a gate of the shared expert, [1, hidden]
  std::vector<float> router_bias, correction;  // [experts]; empty for none
  std::vector<float> scales;                   // [experts], of what they give; empty for none
  // With Mixture::normed_apart; empty for none.
  NormWeights router_norm, experts_norm;
  std::vector<float> experts_after_norm, shared_after_norm;  // [hidden]
  std::vector<float> in_bias, down_bias;                     // [experts, rows of in], [experts, hidden]; empty for none
  Matrices in;                      // of each expert gate, if there is one, and up: [local expert mlp, hidden]
  Matrices down;                    // of each expert [hidden, local expert mlp]
  Matrices shared_in, shared_down;  // of the shared expert, likewise; empty for none
};

/// One rank's weights of a layer that keeps a state.
struct MixerWeights {
  Matrices in;   // [numbers that go in, hidden], one after another in the order of MixerShape
  Matrices out;  // [hidden, MixerShape::out_width]
  MixerVectors vectors;
};

/// One rank's weights of latent attention but its output, which is attention's.
struct LatentWeights {
  Matrices in;                    // of what queries are made of [query_rank, hidden], where there is that, and of what
                                  // is cached [rank + rotated_dim, hidden], latents first
  std::vector<float> query_norm;  // [query_rank]; empty for none
  Matrices query;                 // [local heads * query_dim, query_rank, or hidden]
  std::vector<float> norm;        // [rank]
  Matrices keys, values;          // of each local head [rank, key_dim], [value_dim, rank]
};

/// One rank's weights of one layer.
struct LayerWeights {
  NormWeights attention_norm;
  NormWeights mlp_norm;                                     // empty where attention and MLP share one
  std::vector<float> attention_after_norm, mlp_after_norm;  // [hidden]; empty for none
  /// Local heads, unless another layer's are read kv heads twice, and gates of heads where the model has them:
  /// [* head_dim, hidden]. None in a layer that keeps a state.
  Matrices qkv;
  LatentWeights latents;                    // instead of qkv
  std::vector<float> qkv_bias;              // one per row of qkv; empty for none
  std::vector<float> query_norm, key_norm;  // [head_dim], or of all local heads; empty for none
  Matrices attention_out;                   // [hidden, local heads * head_dim]
  std::vector<float> sinks;                 // of local heads; empty for none
  std::vector<float> attention_out_bias;    // [hidden]; empty for none
  Matrices mlp_in;                          // gate, where there is one, and up: [local mlp, hidden] each
  std::vector<float> up_bias;               // [local mlp]; empty for none
  Matrices down;                            // [hidden, local mlp]
  std::vector<float> down_bias;             // [hidden]; empty for none
  MixtureWeights mixture;                   // instead of an MLP
  Matrices input_gate, input_out;           // [layer_input_size, hidden], [hidden, layer_input_size]; empty for none
  std::vector<float> input_norm;            // [hidden]; empty for none
  MixerWeights mixer;                       // instead of attention
  float scale = 1;                          // of the residual after the layer
};

/// What layers get of a token beside the residual; all empty for none.
struct LayerInputWeights {
  kernels::Weight embedding;  // [vocab, layers * layer_input_size], whole, read in place from the mapped file
  Matrices projection;        // [layers * layer_input_size, hidden]
  std::vector<float> norm;    // [layer_input_size], of what was projected, divided by sqrt(2)
};

/// Of what a model may be without, as kernels take it: null where there is none.
inline const float* DataOf(const std::vector<float>& vector) { return vector.empty() ? nullptr : vector.data(); }

/// A rank's shard of the model, packed out of the mapped files; only the shard's bytes are read. Matrices keep their
/// storage type, or get that in which it is packed (FormOf in worker/model/stored_rows.h), but:
///   a quantised matrix whose column range would cut a packed block is expanded to fp32;
///   with quantization int8 or int4, matrices that are plain, or whose form is, of whole blocks of columns become q8_0
///   or q4_1. With int4 the output head, whose errors nothing comes after to even out, becomes q8_0. Routers stay as
///   they are: a rounded one chooses other experts. So do what the decay and the betas of states are made by, which
///   are few.
class ModelWeights {
 public:
  ModelWeights(const ModelFiles& files, const RankShard& shard, Quantization quantization)
      : ModelWeights(files, shard, quantization, Loading::kPack) {}

  /// What bytes() would be, without reading a matrix.
  static int64_t Bytes(const ModelFiles& files, const RankShard& shard, Quantization quantization) {
    return ModelWeights(files, shard, quantization, Loading::kCount).bytes();
  }

  std::vector<LayerWeights> layers;
  NormWeights embedding_norm;  // empty for none
  NormWeights final_norm;
  kernels::Weight embedding;  // [vocab, hidden], whole, read in place from the mapped file
  kernels::Weight positions;  // [positions, hidden], likewise, from that of position 0 on; no rows for none
  LayerInputWeights layer_inputs;
  Matrices head;                 // [local vocab, hidden]
  std::vector<float> head_bias;  // [local vocab]; empty for none

  int64_t bytes() const { return bytes_; }
  /// What takes more memory than the file says, and why: sentences for the log.
  std::vector<std::string> Notes() const;

 private:
  enum class Loading { kPack, kCount };
  ModelWeights(const ModelFiles& files, const RankShard& shard, Quantization quantization, Loading loading);
  LayerWeights LoadLayer(const ModelFiles& files, const RankShard& shard, int64_t layer);
  void LoadAttention(const ModelFiles& files, const RankShard& shard, int64_t layer, LayerWeights& out);
  LatentWeights LoadLatents(const ModelFiles& files, const RankShard& shard, int64_t layer);
  MixerWeights LoadMixer(const ModelFiles& files, const RankShard& shard, int64_t layer);
  MixtureWeights LoadMixture(const ModelFiles& files, const RankShard& shard, int64_t layer);
  kernels::PackedWeight Load(const ModelFiles& files, const RankShard& shard, Role role, int64_t layer,
                             int64_t expert = 0);
  kernels::PackedWeight Pack(const Tensor& tensor, const WeightSlice& slice);

  /// How columns of a matrix are packed that has this form.
  NumberType TypeFor(NumberType form, const WeightSlice& slice) const;

  const Loading loading_;
  std::string path_;
  std::optional<NumberType> wanted_;    // of plain weights
  std::map<std::string, int> widened_;  // by the reason: matrices that take more bits than in the file
  std::deque<HostMemory> storage_;
  int64_t bytes_ = 0;
};

}  // namespace quire

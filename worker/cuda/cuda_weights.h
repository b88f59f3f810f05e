#pragma once

#include <functional>
#include <vector>

#include "comm/model/model_files.h"
#include "kernels/cuda/paged_cache.h"
#include "worker/cuda/cuda_mixer_weights.h"
#include "worker/cuda/device.h"
#include "worker/model/shard.h"

namespace quire {

/// [hidden] each, of Mixture::normed_apart; null for others.
struct CudaMixtureNorms {
  void *router = nullptr, *experts = nullptr, *experts_after = nullptr, *shared_after = nullptr;
};

/// One rank's weights of one layer in device memory. Matrices are [rows, cols] with y = x * W^T; rows and columns that
/// only pad are zero.
struct CudaLayerWeights {
  void *attention_norm, *attention_norm_bias;   // [hidden], or null
  void *mlp_norm, *mlp_norm_bias;               // [hidden], or null
  void *attention_after_norm, *mlp_after_norm;  // [hidden], or null
  void* qkv;                                    // [QkvWidth, hidden]; behind queries, keys and values gates, if any
  void* qkv_bias;                               // one for each query, key and value, or null
  void *query_norm, *key_norm;                  // [head_dim], or of all local heads, or null
  void* attention_out;                          // [hidden, local heads * head_dim]
  void* attention_out_bias;                     // [hidden], or null
  CudaMixerWeights mixer;                       // of a layer that keeps a state, and has nothing of the five above
  // Null where the layer's MLP is a mixture.
  void* mlp_in;  // [2 * mlp_width, hidden], in the order of kernels::SkinnyGateUpRow; without gates [mlp_width, hidden]
  void* up_bias;    // [mlp_width], or null
  void* down;       // [hidden, mlp_width]
  void* down_bias;  // [hidden], or null
  // Null where layers get nothing beside the residual.
  void* input_gate;  // [layer_input_size, hidden]
  void* input_out;   // [hidden, layer_input_size]
  void* input_norm;  // [hidden]
  // Null where the layer's MLP is no mixture.
  void* router;             // [router_width, hidden]: of every expert, of the shared one's gate, zeros
  void* experts_in_bias;    // [experts, 2 * expert_width], in the order of experts_in; or null
  void* experts_down_bias;  // [experts, hidden], or null
  void* experts_in;         // [experts, 2 * expert_width, hidden], each like mlp_in
  void* experts_down;       // [experts, hidden, expert_width]
  void* shared_in;          // [2 * shared_width, hidden], like mlp_in; or null
  void* shared_down;        // [hidden, shared_width], or null
  CudaMixtureNorms norms_apart;
  float scale = 1;  // of the residual after the layer
};

/// Where a rank's weights are.
struct CudaWeightPlaces {
  std::vector<CudaLayerWeights> layers;
  void *embedding_norm, *embedding_norm_bias;  // [hidden], or null
  void *final_norm, *final_norm_bias;          // [hidden]; the bias may be null
  void* positions;                             // [positions, hidden], or null
  void* value_norm;                            // [largest head_dim] ones, or null
  void* layer_embedding;                       // [vocab, layers * layer_input_size], or null
  void* layer_projection;                      // [layers * layer_input_size, hidden], or null
  void* layer_projection_norm;                 // [layer_input_size], divided by sqrt(2); or null
  void* embedding;                             // [vocab, hidden]
  void* head = nullptr;                        // [local vocab, hidden]
};

/// A rank's shard of the model on its device, in one type. The embedding is whole on every rank; a tied head is part of
/// it.
class CudaWeights : public CudaWeightPlaces {
 public:
  /// Loads. `progress` is called with bytes done and bytes in all.
  CudaWeights(const ModelFiles& files, const RankShard& shard, NumberType dtype, Device& device, int threads,
              const std::function<void(int64_t, int64_t)>& progress);

  /// Bytes that the constructor takes of the device.
  static int64_t Bytes(const ModelSpec& spec, const RankShard& shard, NumberType dtype);

  /// MLP columns of the rank, rounded up so that rows are whole 16-byte pieces and gates alternate with ups.
  static int64_t MlpWidth(const RankShard& shard, int64_t layer) {
    return (shard.layer(layer).mlp.size() + 15) / 16 * 16;
  }
  static int64_t ExpertWidth(const RankShard& shard) { return (shard.expert_mlp.size() + 15) / 16 * 16; }
  static int64_t SharedWidth(const RankShard& shard) { return (shard.shared_mlp.size() + 15) / 16 * 16; }
  /// Rows of a router, rounded up to whole vectors of logits.
  static int64_t RouterWidth(const ModelSpec& spec) { return (spec.mixture.experts + 8) / 8 * 8; }

  int64_t bytes() const { return memory_.bytes(); }

 private:
  DeviceMemory memory_;
};

}  // namespace quire

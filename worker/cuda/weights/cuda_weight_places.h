#pragma once

#include <cstdint>
#include <vector>

#include "worker/cuda/weights/cuda_latent_weights.h"
#include "worker/cuda/weights/cuda_mixer_weights.h"
#include "worker/cuda/weights/device_matrix.h"

namespace quire {

/// The norms of models with Mixture::normed_apart, [hidden] each; null in other models.
struct CudaMixtureNorms {
  void *router = nullptr, *experts = nullptr, *experts_after = nullptr, *shared_after = nullptr;
};

/// Rows [first, first + rows) of the qkv product: the weights of neighbouring roles that have the same form.
struct QkvPart {
  DeviceMatrix matrix;
  int64_t first = 0, rows = 0;
};

/// One rank's weights of one layer in device memory. worker/model/weight_plan.h says which weights have which place,
/// and MembersOf which member a place is. Matrices are [rows, cols] with y = x * W^T. Padding rows and columns are
/// zero. Members are null if the layer lacks the weight.
struct CudaLayerWeights {
  void *attention_norm = nullptr, *attention_norm_bias = nullptr;   // [hidden]
  void *mlp_norm = nullptr, *mlp_norm_bias = nullptr;               // [hidden]
  void *attention_after_norm = nullptr, *mlp_after_norm = nullptr;  // [hidden]
  std::vector<QkvPart> qkv;                         // together [QkvWidth, hidden]; gates, if any, come after values
  CudaLatentWeights latents;                        // instead of qkv
  void* qkv_bias = nullptr;                         // one number for each query, key and value number
  void *query_norm = nullptr, *key_norm = nullptr;  // [head_dim], or one per number of the local heads
  DeviceMatrix attention_out;          // [hidden, local heads * head_dim, or * value_dim of latent attention]
  void* attention_out_bias = nullptr;  // [hidden]
  CudaMixerWeights mixer;              // for a layer that keeps a state, instead of qkv to attention_out_bias
  // The next four members are those of an MLP that is no mixture.
  DeviceMatrix
      mlp_in;  // [2 * mlp_width, hidden], in the order of kernels::SkinnyGateUpRow; without gates [mlp_width, hidden]
  void* up_bias = nullptr;    // [mlp_width]
  DeviceMatrix down;          // [hidden, mlp_width]
  void* down_bias = nullptr;  // [hidden]
  // The next three members are those of layer inputs.
  void* input_gate = nullptr;  // [layer_input_size, hidden]
  void* input_out = nullptr;   // [hidden, layer_input_size]
  void* input_norm = nullptr;  // [hidden]
  // The next members are those of a mixture.
  void* router = nullptr;             // [router_width, hidden]: experts, the shared expert's gate, zeros
  void* experts_in_bias = nullptr;    // [experts, 2 * expert_width], in the order of experts_in
  void* experts_down_bias = nullptr;  // [experts, hidden]
  DeviceMatrix experts_in;            // [experts, 2 * expert_width (without gates expert_width), hidden], as mlp_in
  DeviceMatrix experts_down;          // [experts, hidden, expert_width]
  DeviceMatrix shared_in;             // [2 * shared_width (or shared_width), hidden], as mlp_in
  DeviceMatrix shared_down;           // [hidden, shared_width]
  CudaMixtureNorms norms_apart;       // set only with Mixture::normed_apart
  float scale = 1;                    // factor of the residual after the layer
};

/// The addresses of a rank's weights in device memory.
struct CudaWeightPlaces {
  std::vector<CudaLayerWeights> layers;
  void *embedding_norm = nullptr, *embedding_norm_bias = nullptr;  // [hidden], or null
  void *final_norm = nullptr, *final_norm_bias = nullptr;          // [hidden]; the bias may be null
  void* positions = nullptr;                                       // [positions, hidden], or null
  void* value_norm = nullptr;                                      // [largest head_dim] ones, or null
  void* layer_embedding = nullptr;                                 // [vocab, layers * layer_input_size], or null
  void* layer_projection = nullptr;                                // [layers * layer_input_size, hidden], or null
  void* layer_projection_norm = nullptr;                           // [layer_input_size], divided by sqrt(2); or null
  void* embedding = nullptr;                                       // [vocab, hidden]
  void* head = nullptr;                                            // [local vocab, hidden]
  int64_t expanded_bytes = 0;  // memory for expanded rows of quantised weights (for prompts)
};

}  // namespace quire

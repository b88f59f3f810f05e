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
  std::vector<Role> roles = {};
};

/// One rank's weights of one layer in device memory. Matrices are [rows, cols] with y = x * W^T. Padding rows and
/// columns are zero.
struct CudaLayerWeights {
  void *attention_norm, *attention_norm_bias;   // [hidden], or null
  void *mlp_norm, *mlp_norm_bias;               // [hidden], or null
  void *attention_after_norm, *mlp_after_norm;  // [hidden], or null
  std::vector<QkvPart> qkv;                     // together [QkvWidth, hidden]; gates, if any, come after values
  CudaLatentWeights latents;                    // instead of qkv
  void* qkv_bias;                               // one per query, key and value number; or null
  void *query_norm, *key_norm;                  // [head_dim], or one per number of the local heads; or null
  DeviceMatrix attention_out;                   // [hidden, local heads * head_dim, or * value_dim of latent attention]
  void* attention_out_bias;                     // [hidden], or null
  CudaMixerWeights mixer;                       // for a layer that keeps a state, instead of qkv to attention_out_bias
  // The next four members are null if the layer's MLP is a mixture.
  DeviceMatrix
      mlp_in;  // [2 * mlp_width, hidden], in the order of kernels::SkinnyGateUpRow; without gates [mlp_width, hidden]
  void* up_bias;      // [mlp_width], or null
  DeviceMatrix down;  // [hidden, mlp_width]
  void* down_bias;    // [hidden], or null
  // The next three members are null in models without layer inputs.
  void* input_gate;  // [layer_input_size, hidden]
  void* input_out;   // [hidden, layer_input_size]
  void* input_norm;  // [hidden]
  // The next seven members are null if the layer's MLP is not a mixture.
  void* router;               // [router_width, hidden]: experts, the shared expert's gate, zeros
  void* experts_in_bias;      // [experts, 2 * expert_width], in the order of experts_in; or null
  void* experts_down_bias;    // [experts, hidden], or null
  DeviceMatrix experts_in;    // [experts, 2 * expert_width (without gates expert_width), hidden], each like mlp_in
  DeviceMatrix experts_down;  // [experts, hidden, expert_width]
  DeviceMatrix shared_in;     // [2 * shared_width (or shared_width), hidden], like mlp_in; or null
  DeviceMatrix shared_down;   // [hidden, shared_width], or null
  // Set only with Mixture::normed_apart.
  CudaMixtureNorms norms_apart;
  float scale = 1;  // factor of the residual after the layer
};

/// The addresses of a rank's weights in device memory.
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
  int64_t expanded_bytes = 0;                  // memory for expanded rows of quantised weights (for prompts)
};

}  // namespace quire

#pragma once

#include "worker/cuda/weights/device_matrix.h"

namespace quire {

/// One rank's weights of latent attention in device memory. The output projection is CudaLayerWeights::attention_out.
/// All are null in models without latent attention.
struct CudaLatentWeights {
  DeviceMatrix query_in;       // [query_rank, hidden]: the queries' low-rank input; null: none
  DeviceMatrix in;             // [rank + rotated_dim, hidden]: the row to cache, latents first
  DeviceMatrix query;          // [local heads * query_dim, query_rank or hidden]
  void* query_norm = nullptr;  // [query_rank], or null
  void* norm = nullptr;        // [rank]
  // `keys` and `values` are plain numbers of the model's type, whatever type the file has.
  void* keys = nullptr;    // [local heads, rank, key_dim]: make queries comparable with latents
  void* values = nullptr;  // [local heads, value_dim, rank]
};

}  // namespace quire

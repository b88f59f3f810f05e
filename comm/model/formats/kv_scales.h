#pragma once

#include <string>
#include <vector>

#include "comm/model/formats/tensor.h"

namespace quire {

/// What keys and values of a layer are divided by before they become FP8 in a KV cache.
struct KvScales {
  float key = 1, value = 1;
};

/// Takes the factors of FP8 KV caches out of a safetensors model's tensors, of each of its layers: numbers named
/// model.layers.N.self_attn[.attn|.k_proj|.v_proj].k_scale and v_scale, or kv_scale for both. Those of heads and those
/// that are not there are 1. Throws Error that begins with `path` and names the tensor when one is not above zero.
std::vector<KvScales> TakeKvScales(TensorMap& tensors, int64_t num_layers, const std::string& path);

}  // namespace quire

#pragma once

#include <string>
#include <vector>

#include "comm/model/formats/tensor.h"

namespace quire {

/// The divisors by which an FP8 KV cache divides a layer's keys and values before it stores them.
struct KvScales {
  float key = 1, value = 1;
};

/// Removes the scales of FP8 KV caches from a safetensors model's tensors and returns the scales by layer. The tensors'
/// names are model.layers.N.self_attn[.attn|.k_proj|.v_proj].k_scale and v_scale, or kv_scale for both. A missing scale
/// counts as 1. A tensor with a scale for each head is ignored, so that the scale is 1, too. Throws Error, which begins
/// with `path` and names the tensor, when a scale is not a finite number above zero.
std::vector<KvScales> TakeKvScales(TensorMap& tensors, int64_t num_layers, const std::string& path);

}  // namespace quire

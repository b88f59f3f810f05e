#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "comm/model/model_files.h"
#include "kernels/packed_weight.h"
#include "worker/memory.h"
#include "worker/model/weight_slice.h"
#include "worker/shard.h"

namespace quire {

/// Matrices that are multiplied with the same x, each of a storage type of its own: y = x * W^T, one after another.
using Matrices = std::vector<kernels::PackedWeight>;

/// One rank's weights of one layer.
struct LayerWeights {
  std::vector<float> attention_norm, mlp_norm;              // [hidden]; empty for none
  std::vector<float> attention_after_norm, mlp_after_norm;  // [hidden]; empty for none
  Matrices qkv;                                             // of local heads, kv heads, kv heads: [* head_dim, hidden]
  std::vector<float> qkv_bias;                              // one per row of qkv; empty for none
  std::vector<float> query_norm, key_norm;                  // [head_dim], or of all local heads; empty for none
  Matrices attention_out;                                   // [hidden, local heads * head_dim]
  Matrices gate_up;                                         // [local mlp, hidden], [local mlp, hidden]
  Matrices down;                                            // [hidden, local mlp]
};

/// A rank's shard of the model, packed out of the mapped files; only the shard's bytes are read. Matrices keep their
/// storage type, or get that in which it is packed (kernels::PackedType), but:
///   a quantised matrix whose column range would cut a packed block is expanded to fp32;
///   with quantization int8 or int4, plain matrices of whole blocks of columns become q8_0 or q4_1. With int4 the
///   output head, whose errors nothing comes after to even out, becomes q8_0.
class ModelWeights {
 public:
  ModelWeights(const ModelFiles& files, const RankShard& shard, const std::string& quantization);

  std::vector<LayerWeights> layers;
  std::vector<float> final_norm;  // [hidden]
  kernels::Weight embedding;      // [vocab, hidden], whole, read in place from the mapped file
  Matrices head;                  // [local vocab, hidden]

  int64_t bytes() const { return bytes_; }

 private:
  LayerWeights LoadLayer(const ModelFiles& files, const RankShard& shard, int64_t layer);
  kernels::PackedWeight Pack(const Tensor& tensor, const WeightSlice& slice);

  /// Of a matrix with such columns.
  kernels::WeightType TypeFor(kernels::WeightType stored, Range cols) const;

  std::optional<kernels::WeightType> wanted_;  // of plain weights
  std::deque<HostMemory> storage_;
  int64_t bytes_ = 0;
};

}  // namespace quire

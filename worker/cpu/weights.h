#pragma once

#include <deque>
#include <vector>

#include "comm/model/model_files.h"
#include "kernels/weight.h"
#include "worker/memory.h"
#include "worker/shard.h"

namespace quire {

/// One rank's weights of one layer. Matrices are [rows, cols] with y = x * W^T.
struct LayerWeights {
  std::vector<float> input_norm, post_attention_norm;  // [hidden]
  kernels::Weight q, k, v;                             // [local heads * head_dim, hidden]
  kernels::Weight o;                                   // [hidden, local heads * head_dim]
  kernels::Weight gate, up;                            // [local mlp, hidden]
  kernels::Weight down;                                // [hidden, local mlp]
};

/// A rank's shard of the model, copied out of the mapped files; only the shard's bytes are read. Numbers keep their
/// storage type; a quantised matrix whose column range would cut a block is expanded to fp32.
class ModelWeights {
 public:
  ModelWeights(const ModelFiles& files, const RankShard& shard);

  std::vector<LayerWeights> layers;
  std::vector<float> final_norm;  // [hidden]
  kernels::Weight embedding;      // [vocab, hidden], whole, read in place from the mapped file
  kernels::Weight lm_head;        // [local vocab, hidden]

  int64_t bytes() const { return bytes_; }

 private:
  kernels::Weight Copy(const Tensor& tensor, Range rows, Range cols);
  /// Rows of whole heads; undoes GGUF's interleaving of rotated dimensions.
  kernels::Weight CopyHeads(const Tensor& tensor, Range heads, int64_t head_dim, bool interleaved);
  kernels::Weight CopyRows(const Tensor& tensor, const std::vector<int64_t>& rows, Range cols);

  std::deque<HostMemory> storage_;
  int64_t bytes_ = 0;
};

}  // namespace quire

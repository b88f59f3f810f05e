#pragma once

#include <cstdint>
#include <vector>

#include "comm/model/model_spec.h"
#include "kernels/matmul.h"
#include "worker/cpu/weights.h"
#include "worker/model/shard.h"

namespace quire {

/// Computes, on the CPU, the steps of latent attention (comm/model/latent_attention.h) before and after attention
/// itself, and owns the buffers. Models without latent attention use no memory for the buffers.
class CpuLatents {
 public:
  /// The references must outlive the object.
  CpuLatents(const ModelSpec& spec, const RankShard& shard, const kernels::CpuStream& stream,
             kernels::Activations activations, int64_t max_tokens);

  /// Returns the bytes of the buffers.
  static int64_t Bytes(const ModelSpec& spec, const RankShard& shard, int64_t max_tokens);

  /// Computes qkv [tokens, heads + 1, head_dim] from x [tokens, hidden]. A head's query is its rotated part, then its
  /// other part times the matrix that makes keys from latents. The last row is the key that all heads share: the part
  /// to rotate, then the normed latent. The rotation itself comes later.
  void Project(const LatentWeights& weights, const float* x, int64_t tokens, float* qkv);

  /// Computes the attended values from the weighted means of cached rows that attention returns in attended [tokens,
  /// heads, head_dim].
  void MakeValues(const LatentWeights& weights, const float* attended, int64_t tokens);

  /// Returns the values that MakeValues made: [tokens, heads * value_dim].
  const float* values() const { return values_.data(); }

 private:
  /// Computes products_ [heads, tokens, rows of a head's matrix] = x * matrix^T for each head. x has a vector for each
  /// head of each token [tokens, heads]; the vectors begin `apart` floats apart.
  void MultiplyByHead(const Matrices& weights, const float* x, int64_t apart, int64_t tokens);
  /// Copies the part of a head that rotates. In `to`, the first numbers of all rotated pairs come first, then the
  /// second numbers.
  void PutRotated(const float* from, float* to) const;

  const LatentAttention& latent_;
  int64_t heads_, head_dim_;
  bool interleaved_;  // the products have the two numbers of a rotated pair side by side
  const kernels::CpuStream& stream_;
  kernels::Activations activations_;
  std::vector<float> in_;             // [T, query_rank + head_dim]: the queries' low-rank input, then the row to cache
  std::vector<float> queries_;        // [T, heads, query_dim]
  std::vector<float> products_;       // room for the products of kRowsTogether tokens
  std::vector<int32_t> start_;        // [heads + 1]: rows of products_
  std::vector<int32_t> part_of_row_;  // for each row of products_, its row of x [tokens, heads]
  // The attended values: [T, heads * value_dim].
  std::vector<float> values_;
};

}  // namespace quire

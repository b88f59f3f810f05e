#pragma once

#include <cstdint>
#include <vector>

#include "comm/model/model_spec.h"
#include "kernels/matmul.h"
#include "worker/cpu/weights.h"
#include "worker/model/shard.h"

namespace quire {

/// Computes, on the CPU, the steps of latent attention (comm/model/latent_attention.h) before and after attention
/// itself, and owns the buffers. Models without latent attention use no memory here.
class CpuLatents {
 public:
  /// The references must outlive the object.
  CpuLatents(const ModelSpec& spec, const RankShard& shard, const kernels::CpuStream& stream,
             kernels::Activations activations, int64_t max_tokens);

  /// Computes qkv [tokens, heads + 1, head_dim] from x [tokens, hidden]. A query of a head is its rotated part, then
  /// the rest of it times the matrix that makes keys of latents. The last row is the key that all heads share: its
  /// part to rotate, then the normed latent. Rotation itself comes later.
  void Project(const LatentWeights& weights, const float* x, int64_t tokens, float* qkv);

  /// Makes the attended values from attention's weighted means of cached rows, attended [tokens, heads, head_dim].
  void MakeValues(const LatentWeights& weights, const float* attended, int64_t tokens);

  /// Returns the values that MakeValues made: [tokens, heads * value_dim].
  const float* values() const { return values_.data(); }

 private:
  /// Computes products_ [heads, tokens, rows of a head's matrix] = x * matrix^T for each head. x is [tokens, heads],
  /// its entries `apart` floats apart.
  void MultiplyByHead(const Matrices& weights, const float* x, int64_t apart, int64_t tokens);
  /// Copies the rotated part of a head and puts it into half-split order: first the dimensions i, then their partners.
  void PutRotated(const float* from, float* to) const;

  const LatentAttention& latent_;
  int64_t heads_, head_dim_;
  bool interleaved_;  // the products give rotated pairs side by side
  const kernels::CpuStream& stream_;
  kernels::Activations activations_;
  std::vector<float> in_;             // [T, query_rank + head_dim]: the queries' low-rank input, then the row to cache
  std::vector<float> queries_;        // [T, heads, query_dim]
  std::vector<float> products_;       // room for the products of kRowsTogether tokens
  std::vector<int32_t> start_;        // [heads + 1]: rows of products_
  std::vector<int32_t> part_of_row_;  // the same for rows of products_: their row of x [tokens, heads]
  // The attended values, [T, heads * value_dim].
  std::vector<float> values_;
};

}  // namespace quire

#pragma once

#include <cstdint>
#include <vector>

#include "comm/model/model_spec.h"
#include "kernels/matmul.h"
#include "worker/cpu/weights.h"
#include "worker/model/shard.h"

namespace quire {

/// What latent attention (comm/model/latent_attention.h) computes before and after attention itself, on the CPU, and
/// what it keeps of T tokens meanwhile. Of other models nothing is kept or done.
class CpuLatents {
 public:
  /// The references outlive it.
  CpuLatents(const ModelSpec& spec, const RankShard& shard, const kernels::CpuStream& stream,
             kernels::Activations activations, int64_t max_tokens);

  /// Of x [tokens, hidden]: qkv = of each of the rank's heads what rotates of its query and, behind it, the rest of it
  /// times what makes keys of latents; then the key that all heads share, before it is rotated, and the latent, normed.
  /// [tokens, heads + 1, head_dim]
  void Project(const LatentWeights& weights, const float* x, int64_t tokens, float* qkv);

  /// Makes of what attention gives, means of what is cached [tokens, heads, head_dim], the values that they stand for.
  void MakeValues(const LatentWeights& weights, const float* attended, int64_t tokens);

  /// [tokens, heads * value_dim]
  const float* values() const { return values_.data(); }

 private:
  /// products_ [heads, tokens, a matrix's rows] = what each head has of x [tokens, heads], so many floats apart, times
  /// the head's matrix.
  void MultiplyByHead(const Matrices& weights, const float* x, int64_t apart, int64_t tokens);
  /// What rotates of a head, first the numbers that others rotate with.
  void PutRotated(const float* from, float* to) const;

  const LatentAttention& latent_;
  int64_t heads_, head_dim_;
  bool interleaved_;  // what rotates lies side by side in what products give
  const kernels::CpuStream& stream_;
  kernels::Activations activations_;
  std::vector<float> in_;             // [T, query_rank + head_dim]: what queries are made of, and what is cached
  std::vector<float> queries_;        // [T, heads, query_dim]
  std::vector<float> products_;       // of kRowsTogether tokens
  std::vector<int32_t> start_;        // [heads + 1]: rows of products_
  std::vector<int32_t> part_of_row_;  // likewise, which of [tokens, heads] is multiplied
  std::vector<float> values_;
};

}  // namespace quire

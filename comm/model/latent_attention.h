#pragma once

#include <cstdint>
#include <string>

namespace quire {

/// Attention whose keys and values are made of a few numbers of each token, its latent (multi-head latent attention,
/// arXiv 2405.04434). Of a head, a key is key_dim numbers that are made of the latent, and rotated_dim numbers that all
/// heads share; a value is made of the latent alone. What is cached is the shared key, rotated, and the latent behind
/// it: one head of keys, of LayerSpec::head_dim = rotated_dim + rank numbers, for all query heads, and the same as
/// values. Queries are brought there instead of latents to the heads: a score q * (latent * K^T) is (q * K) * latent.
struct LatentAttention {
  int64_t rank = 0;        // numbers of a latent; 0: the model has no such attention
  int64_t query_rank = 0;  // queries are made of so many numbers, normed, of a token; 0: of the normed residual
  int64_t key_dim = 0;
  int64_t rotated_dim = 0;
  int64_t value_dim = 0;
  double norm_epsilon = 1e-6;  // of the norms of latents and of what queries are made of
  /// The file has what makes keys and values head by head, [heads, rank, key_dim] and [heads, value_dim, rank], as
  /// newer GGUF; else they are the rows of one matrix, [key_dim + value_dim, rank] of each head.
  bool by_head = false;

  int64_t query_dim() const { return key_dim + rotated_dim; }
};

/// Throws Error beginning with `path` when a number is out of its range.
void CheckLatentAttention(const LatentAttention& latent, const std::string& path);

/// Every field as text.
std::string TextOf(const LatentAttention& latent);

}  // namespace quire

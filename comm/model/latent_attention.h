#pragma once

#include <cstdint>
#include <string>

namespace quire {

/// Multi-head latent attention (arXiv 2405.04434): the keys and values of a token are made from a few numbers, the
/// token's latent. A head's key is key_dim numbers made from the latent and rotated_dim numbers that all heads share. A
/// head's value is made from the latent alone. The KV cache has the rotated shared key and then the latent: one key
/// head of LayerSpec::head_dim = rotated_dim + rank numbers for all query heads, which also serves as the values.
/// Latents are not expanded for each head; queries are projected to latents instead: a score q * (latent * K^T) equals
/// (q * K) * latent.
struct LatentAttention {
  int64_t rank = 0;        // numbers in a token's latent; 0: the model has no latent attention
  int64_t query_rank = 0;  // length of a token's normed query latent; 0: queries are made from the normed residual
  int64_t key_dim = 0;
  int64_t rotated_dim = 0;
  int64_t value_dim = 0;
  double norm_epsilon = 1e-6;  // epsilon of the norms of latents and of the query_rank numbers
  /// True when the file has separate tensors for keys and values by head, [heads, rank, key_dim] and [heads, value_dim,
  /// rank], as newer GGUF files have. Otherwise one matrix has both, [key_dim + value_dim, rank] for each head.
  bool by_head = false;

  int64_t query_dim() const { return key_dim + rotated_dim; }
};

/// Throws Error, which begins with `path`, when a number is out of range.
void CheckLatentAttention(const LatentAttention& latent, const std::string& path);

/// Returns every field as text, for fingerprints.
std::string TextOf(const LatentAttention& latent);

}  // namespace quire

#include "comm/model/latent_attention.h"

#include <utility>

#include "comm/base/error.h"

namespace quire {

void CheckLatentAttention(const LatentAttention& latent, const std::string& path) {
  constexpr int64_t kMost = 1 << 16;  // far above any real model
  for (const auto& [name, value] : {std::pair{"kv_lora_rank", latent.rank},
                                    {"qk_nope_head_dim", latent.key_dim},
                                    {"qk_rope_head_dim", latent.rotated_dim},
                                    {"v_head_dim", latent.value_dim}}) {
    if (value < 1 || value > kMost) Fail("{}: {} = {} is out of range", path, name, value);
  }
  if (latent.query_rank < 0 || latent.query_rank > kMost)
    Fail("{}: q_lora_rank = {} is out of range", path, latent.query_rank);
  if (!(latent.norm_epsilon > 0 && latent.norm_epsilon <= 1))
    Fail("{}: an epsilon of norms of {} is out of range", path, latent.norm_epsilon);
}

std::string TextOf(const LatentAttention& latent) {
  const auto& [rank, query_rank, key_dim, rotated_dim, value_dim, epsilon, by_head] = latent;
  return fmt::format("{} {} {} {} {} {} {}", rank, query_rank, key_dim, rotated_dim, value_dim, epsilon, by_head);
}

}  // namespace quire

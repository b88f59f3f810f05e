#pragma once

#include <cstdint>
#include <vector>

#include "comm/model/model_spec.h"
#include "kernels/cuda/decode/decode_attention_plan.h"
#include "kernels/cuda/prefill/prefill_attention_plan.h"

namespace quire {

/// Attention is planned once per step for each kind of layer, and there are at most so many kinds.
inline constexpr size_t kMaxAttentionKinds = 2;

/// What attention is planned by; as LayerSpec has it.
struct AttentionKind {
  int64_t window, head_dim, num_kv_heads;
  bool operator==(const AttentionKind&) const = default;
};

inline AttentionKind KindOf(const LayerSpec& layer) { return {layer.window, layer.head_dim, layer.num_kv_heads}; }

/// Kinds of the model's layers, in the order in which they come up.
std::vector<AttentionKind> KindsOf(const ModelSpec& spec);

/// What plans of one kind hold on a rank.
struct AttentionSizes {
  int32_t window = 0;                          // 0: all
  std::vector<int32_t> head_start;             // of the rank's kv heads
  int32_t decode_ctas = 1, decode_stages = 2;  // kernels::DecodeGrid
  int32_t tile_rows = 0;                       // of prefill
  bool in_groups = false;                      // prefill by products of warpgroups
  kernels::PrefillSplit split;

  kernels::DecodeWorkSize DecodeWork(int64_t sequences) const {
    return {decode_ctas, static_cast<int32_t>(sequences * kernels::NumHeadTiles(head_start))};
  }
};

}  // namespace quire

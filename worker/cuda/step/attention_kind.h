#pragma once

#include <cstdint>
#include <vector>

#include "comm/model/model_spec.h"
#include "kernels/cuda/decode/decode_attention_plan.h"
#include "kernels/cuda/prefill/prefill_attention_plan.h"

namespace quire {

/// The most kinds of attention that the layers of a model may have. A step plans attention once for each kind.
inline constexpr size_t kMaxAttentionKinds = 2;

/// The properties of a layer on which the plan of its attention depends (see LayerSpec).
struct AttentionKind {
  int64_t window, head_dim, num_kv_heads;
  bool operator==(const AttentionKind&) const = default;
};

inline AttentionKind KindOf(const LayerSpec& layer) { return {layer.window, layer.head_dim, layer.num_kv_heads}; }

/// Returns the kinds of the model's layers, in order of first appearance.
std::vector<AttentionKind> KindsOf(const ModelSpec& spec);

/// The sizes with which a rank plans attention of one kind of layer.
struct AttentionSizes {
  int32_t window = 0;                          // 0: no window
  std::vector<int32_t> head_start;             // for each of the rank's KV heads: its first query head
  int32_t decode_ctas = 1, decode_stages = 2;  // kernels::DecodeGrid
  int32_t tile_rows = 0;                       // rows of a prefill tile
  bool in_groups = false;                      // prefill uses the warpgroup kernel
  kernels::PrefillSplit split;

  kernels::DecodeWorkSize DecodeWork(int64_t sequences) const {
    return {decode_ctas, static_cast<int32_t>(sequences * kernels::NumHeadTiles(head_start))};
  }
};

}  // namespace quire

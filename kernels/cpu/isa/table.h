#pragma once

#include "kernels/kv_cache.h"
#include "kernels/matmul.h"
#include "kernels/paged_attention.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "kernels/silu_mul.h"

namespace quire::kernels {

/// One (sequence, query tile, kv head) of a paged attention call.
struct AttentionItem {
  int64_t sequence;
  int64_t first_query;  // row in `queries`
  int64_t num_queries;  // 1..kAttentionTile
  int64_t kv_head;
};
inline constexpr int64_t kAttentionTile = 16;

/// Rows of a weight that are decoded to fp32 at a time, and columns summed in one go: both keep the panel in L2.
inline constexpr int64_t kPanelRows = 24;
inline constexpr int64_t kPanelCols = 1024;
inline constexpr int64_t kPanelFloats = kPanelRows * kPanelCols;

/// The vectorised inner parts, compiled once per instruction set. Ranges and items are independent of each other.
struct IsaTable {
  void (*matmul)(const MatmulParams&, int64_t row_begin, int64_t row_end, float* panel);
  void (*attention)(const PagedAttentionParams&, const AttentionItem&, float* scratch);
  int64_t (*attention_scratch)(const PagedAttentionParams&);  // floats
  void (*rms_norm)(const RmsNormParams&, int64_t row_begin, int64_t row_end);
  void (*rope)(const RopeParams&, int64_t row_begin, int64_t row_end);
  void (*silu_mul)(const SiluMulParams&, int64_t row_begin, int64_t row_end);
  void (*decode)(const Weight&, int64_t row, int64_t col, int64_t count, float* out);
};

namespace baseline {
const IsaTable& Table();
}
namespace avx2 {
const IsaTable& Table();
}
namespace avx512 {
const IsaTable& Table();
}

/// The best table this processor runs (see CpuIsaName).
const IsaTable& ActiveTable();

}  // namespace quire::kernels

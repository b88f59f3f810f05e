// The CPU ops: check parameters, split the work into independent parts, and call the instruction set's table.
#include <algorithm>
#include <vector>

#include "kernels/check.h"
#include "kernels/cpu/attention_items.h"
#include "kernels/cpu/isa/table.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/embedding.h"

namespace quire::kernels {

namespace {

/// Returns scratch memory for `floats` floats. Each thread uses its memory again in later calls, so that a step
/// allocates nothing.
float* ThreadScratch(int64_t floats) {
  thread_local std::vector<float> scratch;
  if (static_cast<int64_t>(scratch.size()) < floats) scratch.resize(static_cast<size_t>(floats));
  return scratch.data();
}

}  // namespace

void Embedding(const CpuStream& stream, const EmbeddingParams& p) {
  QUIRE_KERNEL_CHECK(p.dtype == NumberType::kF32);
  const int64_t hidden = p.table.cols;
  stream.pool().ForRange(p.num_tokens, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      float* out = static_cast<float*>(p.out) + t * hidden;
      float* row = p.adds ? ThreadScratch(hidden) : out;
      const int64_t at = p.token_ids[t] - p.first_id;
      if (at >= 0 && at < p.table.rows) {
        DecodeRow(p.table, at, 0, hidden, row);
      } else {
        std::fill_n(row, hidden, 0.0f);
      }
      for (int64_t i = 0; p.scale != 1 && i < hidden; ++i) row[i] *= p.scale;
      for (int64_t i = 0; p.adds && i < hidden; ++i) out[i] += row[i];
    }
  });
}

void RmsNorm(const CpuStream& stream, const RmsNormParams& p) {
  QUIRE_KERNEL_CHECK(p.dtype == NumberType::kF32);
  stream.pool().ForRange(p.num_tokens, 4,
                         [&](int64_t begin, int64_t end, int) { ActiveTable().rms_norm(p, begin, end); });
}

void LayerNorm(const CpuStream& stream, const LayerNormParams& p) {
  QUIRE_KERNEL_CHECK(p.dtype == NumberType::kF32);
  stream.pool().ForRange(p.num_tokens, 4,
                         [&](int64_t begin, int64_t end, int) { ActiveTable().layer_norm(p, begin, end); });
}

void Activate(const CpuStream& stream, const ActivateParams& p) {
  QUIRE_KERNEL_CHECK(p.dtype == NumberType::kF32);
  stream.pool().ForRange(p.num_tokens, 1,
                         [&](int64_t begin, int64_t end, int) { ActiveTable().activate(p, begin, end); });
}

void AddRows(const CpuStream& stream, const AddRowsParams& p) {
  QUIRE_KERNEL_CHECK(p.dtype == NumberType::kF32 && p.to_stride >= p.columns);
  stream.pool().ForRange(p.num_tokens, 4,
                         [&](int64_t begin, int64_t end, int) { ActiveTable().add_rows(p, begin, end); });
}

void ScaleColumns(const CpuStream& stream, const ScaleColumnsParams& p) {
  QUIRE_KERNEL_CHECK(p.row_stride >= p.columns);
  stream.pool().ForRange(p.num_tokens, 4,
                         [&](int64_t begin, int64_t end, int) { ActiveTable().scale_columns(p, begin, end); });
}

void ScaleRows(const CpuStream& stream, const ScaleRowsParams& p) {
  stream.pool().ForRange(p.num_rows, 4,
                         [&](int64_t begin, int64_t end, int) { ActiveTable().scale_rows(p, begin, end); });
}

void HeadNorm(const CpuStream& stream, const HeadNormParams& p) {
  QUIRE_KERNEL_CHECK(p.row_stride >= p.num_heads * p.head_dim);
  stream.pool().ForRange(p.num_tokens, 4,
                         [&](int64_t begin, int64_t end, int) { ActiveTable().head_norm(p, begin, end); });
}

void Rope(const CpuStream& stream, const RopeParams& p) {
  QUIRE_KERNEL_CHECK(p.rotary_dim % 2 == 0 && p.rotary_dim <= p.head_dim);
  stream.pool().ForRange(p.num_tokens, 4, [&](int64_t begin, int64_t end, int) { ActiveTable().rope(p, begin, end); });
}

void GateMul(const CpuStream& stream, const GateMulParams& p) {
  QUIRE_KERNEL_CHECK(p.dtype == NumberType::kF32 && (!p.interleaved || p.columns % 8 == 0));
  QUIRE_KERNEL_CHECK(p.up == nullptr || !p.interleaved);
  stream.pool().ForRange(p.num_tokens, 1,
                         [&](int64_t begin, int64_t end, int) { ActiveTable().gate_mul(p, begin, end); });
}

void CapLogits(const CpuStream& stream, const CapLogitsParams& p) {
  QUIRE_KERNEL_CHECK(p.row_stride >= p.columns);
  // Rows are few and long, so the threads share each row. If the rows are contiguous, they are treated as one row.
  const bool together = p.row_stride == p.columns;
  const int64_t rows = together ? 1 : p.num_rows, columns = together ? p.num_rows * p.columns : p.columns;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t at = row * p.row_stride;
    stream.pool().ForRange(columns, 64,
                           [&](int64_t begin, int64_t end, int) { ActiveTable().cap_logits(p, at + begin, at + end); });
  }
}

void SumSquares(const CpuStream& stream, const SumSquaresParams& p) {
  QUIRE_KERNEL_CHECK(p.dtype == NumberType::kF32);
  stream.pool().ForRange(p.num_tokens, 4,
                         [&](int64_t begin, int64_t end, int) { ActiveTable().sum_squares(p, begin, end); });
}

void WideNorm(const CpuStream& stream, const WideNormParams& p) {
  QUIRE_KERNEL_CHECK(p.dtype == NumberType::kF32);
  stream.pool().ForRange(p.num_tokens, 4,
                         [&](int64_t begin, int64_t end, int) { ActiveTable().wide_norm(p, begin, end); });
}

void CombineExperts(const CpuStream& stream, const CombineExpertsParams& p) {
  QUIRE_KERNEL_CHECK(p.dtype == NumberType::kF32);
  stream.pool().ForRange(p.num_tokens, 1,
                         [&](int64_t begin, int64_t end, int) { ActiveTable().combine_experts(p, begin, end); });
}

void PagedAttention(const CpuStream& stream, const PagedAttentionParams& p) {
  QUIRE_KERNEL_CHECK(p.head_start[p.cache.num_kv_heads] == p.num_heads && p.cache.block_size <= kMaxBlockSize);
  QUIRE_KERNEL_CHECK(p.relative_bias == nullptr || (p.alibi_slopes == nullptr && p.relative_reach > 0));
  thread_local AttentionItems cut;
  cut.Cut(p, stream.pool().num_threads());
  const std::vector<AttentionItem>& items = cut.list();
  const IsaTable& table = ActiveTable();
  const int64_t scratch = table.attention_scratch(p);
  stream.pool().ForEach(static_cast<int64_t>(items.size()), [&](int64_t i, int) {
    table.attention(p, items[static_cast<size_t>(i)], ThreadScratch(scratch));
  });
}

}  // namespace quire::kernels

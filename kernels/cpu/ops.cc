// The CPU ops: check the parameters, cut the work into independent parts, hand them to the instruction set's table.
#include <vector>

#include "kernels/check.h"
#include "kernels/cpu/attention_items.h"
#include "kernels/cpu/isa/table.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/embedding.h"

namespace quire::kernels {

namespace {

/// fp32 working space of one thread, kept between calls so that a step allocates nothing.
float* ThreadScratch(int64_t floats) {
  thread_local std::vector<float> scratch;
  if (static_cast<int64_t>(scratch.size()) < floats) scratch.resize(static_cast<size_t>(floats));
  return scratch.data();
}

}  // namespace

void Embedding(const CpuStream& stream, const EmbeddingParams& p) {
  stream.pool().ForRange(p.num_tokens, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      float* out = p.out + t * p.table.cols;
      float* row = p.adds ? ThreadScratch(p.table.cols) : out;
      DecodeRow(p.table, p.token_ids[t], 0, p.table.cols, row);
      for (int64_t i = 0; p.scale != 1 && i < p.table.cols; ++i) row[i] *= p.scale;
      for (int64_t i = 0; p.adds && i < p.table.cols; ++i) out[i] += row[i];
    }
  });
}

void LayerNorm(const CpuStream& stream, const LayerNormParams& p) {
  stream.pool().ForRange(p.num_tokens, 4,
                         [&](int64_t begin, int64_t end, int) { ActiveTable().layer_norm(p, begin, end); });
}

void Activate(const CpuStream& stream, const ActivateParams& p) {
  stream.pool().ForRange(p.num_tokens, 1,
                         [&](int64_t begin, int64_t end, int) { ActiveTable().activate(p, begin, end); });
}

void AddRows(const CpuStream& stream, const AddRowsParams& p) {
  stream.pool().ForRange(p.num_tokens, 4,
                         [&](int64_t begin, int64_t end, int) { ActiveTable().add_rows(p, begin, end); });
}

void RmsNorm(const CpuStream& stream, const RmsNormParams& p) {
  stream.pool().ForRange(p.num_tokens, 4,
                         [&](int64_t begin, int64_t end, int) { ActiveTable().rms_norm(p, begin, end); });
}

void HeadNorm(const CpuStream& stream, const HeadNormParams& p) {
  QUIRE_KERNEL_CHECK(p.row_stride >= p.num_heads * p.head_dim);
  stream.pool().ForRange(p.num_tokens, 4,
                         [&](int64_t begin, int64_t end, int) { ActiveTable().head_norm(p, begin, end); });
}

void AddBias(const CpuStream& stream, const AddBiasParams& p) {
  QUIRE_KERNEL_CHECK(p.row_stride >= p.columns);
  stream.pool().ForRange(p.num_tokens, 4,
                         [&](int64_t begin, int64_t end, int) { ActiveTable().add_bias(p, begin, end); });
}

void Rope(const CpuStream& stream, const RopeParams& p) {
  QUIRE_KERNEL_CHECK(p.rotary_dim % 2 == 0 && p.rotary_dim <= p.head_dim);
  stream.pool().ForRange(p.num_tokens, 4, [&](int64_t begin, int64_t end, int) { ActiveTable().rope(p, begin, end); });
}

void GateMul(const CpuStream& stream, const GateMulParams& p) {
  stream.pool().ForRange(p.num_tokens, 1,
                         [&](int64_t begin, int64_t end, int) { ActiveTable().gate_mul(p, begin, end); });
}

void CapLogits(const CpuStream& stream, const CapLogitsParams& p) {
  stream.pool().ForRange(p.count, 64,
                         [&](int64_t begin, int64_t end, int) { ActiveTable().cap_logits(p, begin, end); });
}

void SumSquares(const CpuStream& stream, const SumSquaresParams& p) {
  stream.pool().ForRange(p.num_tokens, 4,
                         [&](int64_t begin, int64_t end, int) { ActiveTable().sum_squares(p, begin, end); });
}

void WideNorm(const CpuStream& stream, const WideNormParams& p) {
  stream.pool().ForRange(p.num_tokens, 4,
                         [&](int64_t begin, int64_t end, int) { ActiveTable().wide_norm(p, begin, end); });
}

void CombineExperts(const CpuStream& stream, const CombineExpertsParams& p) {
  stream.pool().ForRange(p.num_tokens, 1,
                         [&](int64_t begin, int64_t end, int) { ActiveTable().combine_experts(p, begin, end); });
}

void PagedAttention(const CpuStream& stream, const PagedAttentionParams& p) {
  QUIRE_KERNEL_CHECK(p.head_start[p.cache.num_kv_heads] == p.num_heads && p.cache.block_size <= kMaxBlockSize);
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

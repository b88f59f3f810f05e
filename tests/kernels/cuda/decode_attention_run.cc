#include "kernels/cuda/decode_attention_run.h"

#include <algorithm>
#include <cstring>

#include "tests/kernels/numbers.h"

namespace quire::kernels {

namespace {

constexpr int32_t kPoison = 1 << 30;
constexpr int64_t kSpareRows = 3;  // rows of the table array that belong to no sequence

std::vector<int32_t> HeadStart(const PagedDecodeParams& p) {
  std::vector<int32_t> start(static_cast<size_t>(p.cache.num_kv_heads) + 1, p.num_heads);
  for (int32_t h = p.num_heads - 1; h >= 0; --h) start[static_cast<size_t>(p.kv_head_of[h])] = h;
  return start;
}

std::vector<int32_t> Contexts(const PagedDecodeParams& p, int32_t padding) {
  std::vector<int32_t> contexts(p.context_len, p.context_len + p.num_seqs);
  contexts.insert(contexts.end(), static_cast<size_t>(padding), 0);
  return contexts;
}

}  // namespace

DecodeAttentionRun::DecodeAttentionRun(const DecodeShape& shape, uint64_t seed, const DecodeCut& cut)
    : cut_(cut),
      case_(shape, seed),
      rows_(case_.Params().num_seqs + cut.padding),
      row_elements_(case_.Params().query_stride),
      head_start_(HeadStart(case_.Params())),
      size_{cut.num_ctas, static_cast<int32_t>(rows_) * NumHeadTiles(head_start_)},
      work_(size_.Words(), kPoison),
      tables_((rows_ + kSpareRows) * case_.Params().table_stride, kPoison),
      table_rows_(rows_),
      queries_(rows_ * row_elements_ * 2),
      out_(queries_.size()),
      workspace_(size_.WorkspaceFloats(shape.head_size), std::numeric_limits<float>::quiet_NaN()) {
  const PagedDecodeParams p = case_.Params();
  plan_ = PlanDecode(size_, Contexts(p, cut.padding), head_start_, p.window, work_.span(), cut.min_units);
  for (int64_t i = 0; i < rows_ * row_elements_; ++i) {
    reference::WriteNumber(queries_.data(), p.dtype, i, kNaN);
    reference::WriteNumber(out_.data(), p.dtype, i, kNaN);
  }
  std::memcpy(queries_.data(), p.queries, static_cast<size_t>(p.num_seqs * row_elements_ * 2));
  for (int64_t s = 0; s < rows_; ++s) {
    table_rows_[s] = static_cast<int32_t>(cut.table_rows ? rows_ + kSpareRows - 1 - s : s);
    if (s >= p.num_seqs) continue;
    std::copy_n(p.block_tables + s * p.table_stride, p.table_stride, &tables_[table_rows_[s] * p.table_stride]);
  }
}

DecodeAttentionParams DecodeAttentionRun::Params() const {
  const PagedDecodeParams p = case_.Params();
  return {.dtype = p.dtype,
          .queries = queries_.data(),
          .query_stride = p.query_stride,
          .out = out_.data(),
          .out_stride = p.out_stride,
          .cache = p.cache,
          .block_tables = tables_.data(),
          .table_stride = p.table_stride,
          .table_rows = cut_.table_rows ? table_rows_.data() : nullptr,
          .alibi_slopes = p.alibi_slopes,
          .scale = p.scale,
          .soft_cap = p.soft_cap,
          .work = work_.data(),
          .work_size = size_,
          .stages = cut_.stages,
          .combine = plan_.combine,
          .workspace = workspace_.data(),
          .sinks = p.sinks};
}

std::vector<float> DecodeAttentionRun::Slice(int64_t begin, int64_t end) const {
  std::vector<float> out;
  for (int64_t i = begin * row_elements_; i < end * row_elements_; ++i) {
    out.push_back(static_cast<float>(reference::ReadNumber(out_.data(), case_.Params().dtype, i)));
  }
  return out;
}

}  // namespace quire::kernels

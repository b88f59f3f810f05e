#include "kernels/cuda/prefill_case.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/cuda/decode_reference.h"
#include "tests/kernels/numbers.h"

namespace quire::kernels {

namespace {

constexpr int32_t kPoison = 1 << 30;  // a block id that no pool holds
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kSpareRows = 2;  // rows after those of the last sequence; they belong to no sequence

int64_t BlocksOf(const PrefillShape& s, int32_t context) { return (context + s.block_size - 1) / s.block_size; }

int64_t TotalBlocks(const PrefillShape& s) {
  int64_t blocks = s.first_block + 2;  // two blocks stay free
  for (const Chunk& chunk : s.chunks) blocks += BlocksOf(s, chunk.context);
  return blocks;
}

int64_t LongestTable(const PrefillShape& s) {
  int64_t blocks = 0;
  for (const Chunk& chunk : s.chunks) blocks = std::max(blocks, BlocksOf(s, chunk.context));
  return blocks + 1;
}

}  // namespace

int64_t PrefillCase::NumRows() const {
  int64_t rows = 0;
  for (const Chunk& chunk : shape_.chunks) rows += chunk.queries;
  return rows;
}

PrefillCase::PrefillCase(PrefillShape shape, uint64_t seed)
    : shape_(std::move(shape)),
      kv_heads_(static_cast<int32_t>(shape_.head_start.size()) - 1),
      query_stride_((NumHeads() + 2 * kv_heads_) * shape_.head_size),
      out_stride_(NumHeads() * shape_.head_size + 8),
      table_stride_(LongestTable(shape_)),
      num_blocks_(TotalBlocks(shape_)),
      queries_((NumRows() + kSpareRows) * query_stride_ * ByteSize(shape_.dtype)),
      out_((NumRows() + kSpareRows) * out_stride_ * ByteSize(shape_.dtype)),
      keys_(num_blocks_ * kv_heads_ * HeadElements() * ByteSize(shape_.CachedType())),
      values_(keys_.size()),
      tables_((NumSeqs() + 1) * table_stride_, kPoison),
      table_rows_(NumSeqs()),
      query_start_(NumSeqs() + 1),
      contexts_(NumSeqs()),
      head_start_(shape_.head_start),
      slopes_(NumHeads()),
      sinks_(NumHeads()),
      tiles_(PrefillTileCapacity(NumRows(), NumSeqs(), LargestPrefillGroup(shape_.head_start),
                                 PrefillTileRows(shape_.dtype, shape_.head_size), Split())),
      merges_(Split().MaxMerges()),
      workspace_(Split().WorkspaceFloats(PrefillTileRows(shape_.dtype, shape_.head_size), shape_.head_size)) {
  test::Random random(seed);
  FillRows(random);
  for (int64_t h = 0; h < slopes_.size(); ++h) {
    slopes_[h] = 0.5f / static_cast<float>(h + 1);
    sinks_[h] = shape_.first_sink - static_cast<float>(h);
  }
  const int64_t begin = shape_.first_block * kv_heads_ * HeadElements(), end = num_blocks_ * kv_heads_ * HeadElements();
  const int64_t number = ByteSize(shape_.CachedType());
  for (auto* pool : {&keys_, &values_}) {
    if (begin > 0) pool->Open(0, kv_heads_ * HeadElements() * number);  // every pool has a block 0
    pool->Open(begin * number, (end - begin) * number);
  }
  for (int64_t i = begin; i < end; ++i) {
    reference::WriteNumber(keys_.data(), shape_.CachedType(), i, kNaN);
    reference::WriteNumber(values_.data(), shape_.CachedType(), i, kNaN);
  }
  std::vector<int32_t> free_blocks(static_cast<size_t>(num_blocks_ - shape_.first_block));
  std::iota(free_blocks.begin(), free_blocks.end(), static_cast<int32_t>(shape_.first_block));
  for (size_t i = free_blocks.size(); i > 1; --i) {
    std::swap(free_blocks[i - 1], free_blocks[static_cast<size_t>(random.Below(static_cast<int64_t>(i)))]);
  }
  for (int64_t s = 0; s < NumSeqs(); ++s) FillSequence(s, free_blocks, random);
  Plan();
}

void PrefillCase::FillRows(test::Random& random) {
  int64_t row = 0;
  for (int64_t i = 0; i < queries_.size() / ByteSize(shape_.dtype); ++i) {
    reference::WriteNumber(queries_.data(), shape_.dtype, i, kNaN);
  }
  for (int64_t i = 0; i < out_.size() / ByteSize(shape_.dtype); ++i) {
    reference::WriteNumber(out_.data(), shape_.dtype, i, kNaN);
  }
  for (int64_t s = 0; s < NumSeqs(); ++s) {
    const Chunk& chunk = shape_.chunks[static_cast<size_t>(s)];
    contexts_[s] = chunk.context;
    table_rows_[s] = static_cast<int32_t>(TableRow(s));
    for (int64_t end = row + chunk.queries; row < end; ++row) {
      for (int64_t i = 0; i < NumHeads() * shape_.head_size && chunk.context > 0; ++i) {
        reference::WriteNumber(queries_.data(), shape_.dtype, row * query_stride_ + i, random.Signed());
      }
    }
    query_start_[s + 1] = static_cast<int32_t>(row);
  }
}

void PrefillCase::FillSequence(int64_t seq, std::vector<int32_t>& free_blocks, test::Random& random) {
  const PagedCache cache = Cache();
  const Chunk& chunk = shape_.chunks[static_cast<size_t>(seq)];
  const int64_t window = shape_.window > 0 ? shape_.window : INT32_MAX;
  const int64_t first = std::max<int64_t>(chunk.context - chunk.queries - window + 1, 0);
  for (int64_t t = first; t < chunk.context && chunk.queries > 0; ++t) {
    int32_t& block = tables_[TableRow(seq) * table_stride_ + t / shape_.block_size];
    if (block == kPoison) block = free_blocks.back(), free_blocks.pop_back();
    for (int64_t g = 0; g < kv_heads_; ++g) {
      for (int64_t d = 0; d < shape_.head_size; ++d) {
        const int64_t key = reference::KeyIndex(cache, block, g, t % shape_.block_size, d);
        const int64_t value = reference::ValueIndex(cache, block, g, t % shape_.block_size, d);
        reference::WriteNumber(keys_.data(), shape_.CachedType(), key, random.Signed() / cache.k_scale);
        reference::WriteNumber(values_.data(), shape_.CachedType(), value, random.Signed() / cache.v_scale);
      }
    }
  }
}

void PrefillCase::Plan() {
  const auto starts = static_cast<size_t>(NumSeqs() + 1);
  const PrefillPlan plan = PlanPrefill({{query_start_.data(), starts},
                                        {contexts_.data(), starts - 1},
                                        {head_start_.data(), static_cast<size_t>(head_start_.size())},
                                        PrefillTileRows(shape_.dtype, shape_.head_size),
                                        shape_.window,
                                        Split()},
                                       tiles_.span(), merges_.span());
  num_merges_ = plan.num_merges;
}

void PrefillCase::Cut(int32_t queries, int32_t context) {
  const int32_t end = context - (shape_.chunks[0].context - shape_.chunks[0].queries);  // rows before `context`
  query_start_[0] = end - queries;
  query_start_[1] = end;
  contexts_[0] = context;
  Plan();
}

PrefillSplit PrefillCase::Split() const { return {shape_.split.num_ctas, kv_heads_}; }

PagedCache PrefillCase::Cache() const {
  const bool fp8 = shape_.fp8_cache;
  const int64_t stride = kv_heads_ * HeadElements();
  return {keys_.data(),
          values_.data(),
          stride,
          stride,
          kv_heads_,
          shape_.head_size,
          shape_.block_size,
          shape_.CachedType(),
          fp8 ? 0.04f : 1.0f,
          fp8 ? 0.03f : 1.0f};
}

PrefillAttentionParams PrefillCase::Params() const {
  return {.dtype = shape_.dtype,
          .queries = queries_.data(),
          .query_stride = query_stride_,
          .out = out_.data(),
          .out_stride = out_stride_,
          .cache = Cache(),
          .block_tables = tables_.data(),
          .table_stride = table_stride_,
          .table_rows = shape_.resident_table ? table_rows_.data() : nullptr,
          .query_start = query_start_.data(),
          .context_len = contexts_.data(),
          .head_start = head_start_.data(),
          .alibi_slopes = shape_.alibi ? slopes_.data() : nullptr,
          .tiles = tiles_.data(),
          .num_tiles = static_cast<int32_t>(tiles_.size()),
          .scale = shape_.scale,
          .soft_cap = shape_.soft_cap,
          .window = shape_.window,
          .sinks = shape_.sinks ? sinks_.data() : nullptr,
          .merges = merges_.data(),
          .num_merges = static_cast<int32_t>(num_merges_),
          .workspace = workspace_.data(),
          .in_groups = shape_.in_groups};
}

std::vector<double> PrefillCase::Expected() const { return reference::PrefillAttention(Params(), NumSeqs()); }

std::vector<float> PrefillCase::Output() const {
  std::vector<float> out;
  for (int64_t row = 0; row < NumRows(); ++row) {
    for (int64_t i = 0; i < NumHeads() * shape_.head_size; ++i) {
      out.push_back(static_cast<float>(reference::ReadNumber(out_.data(), shape_.dtype, row * out_stride_ + i)));
    }
  }
  return out;
}

std::string PrefillCase::Wrong() const {
  const std::vector<float> out = Output();
  std::vector<double> spreads;
  const std::vector<double> expected = reference::PrefillAttention(Params(), NumSeqs(), &spreads);
  for (size_t i = 0; i < out.size(); ++i) {
    if (std::isnan(expected[i]) ? !std::isnan(out[i])
                                : !(std::abs(out[i] - expected[i]) <= Bound(expected[i], spreads[i]))) {
      const size_t row = i / static_cast<size_t>(NumHeads() * shape_.head_size);
      return Name() + ": row " + std::to_string(row) + ", element " +
             std::to_string(i % static_cast<size_t>(NumHeads() * shape_.head_size)) + " is " + std::to_string(out[i]) +
             " instead of " + std::to_string(expected[i]);
    }
  }
  for (int64_t i = 0; i < out_.size() / ByteSize(shape_.dtype); ++i) {
    const bool written = !std::isnan(reference::ReadNumber(out_.data(), shape_.dtype, i));
    if (written && (i / out_stride_ >= NumRows() || i % out_stride_ >= NumHeads() * shape_.head_size)) {
      return Name() + ": writes outside the results, at " + std::to_string(i);
    }
  }
  return "";
}

// Allows an error of 4e-6 (times the scale if it is above 1) for the fp32 sum of a score, and as much for the score's
// weight.
double PrefillCase::Bound(double exact, double spread) const {
  const double unit = shape_.dtype == NumberType::kF32 ? 0.0 : shape_.dtype == NumberType::kF16 ? 0x1p-11 : 0x1p-8;
  return reference::AttentionBound(unit, 4e-6 * std::max(1.0f, shape_.scale), exact, spread);
}

std::string PrefillCase::Name() const {
  std::string chunks, heads;
  for (const Chunk& c : shape_.chunks)
    chunks.append(" ").append(std::to_string(c.queries)).append("/").append(std::to_string(c.context));
  for (const int32_t start : shape_.head_start) heads.append(" ").append(std::to_string(start));
  return std::string(LayoutOf(shape_.dtype).name) + (shape_.fp8_cache ? ", fp8 cache" : "") + ", head_size " +
         std::to_string(shape_.head_size) + ", block_size " + std::to_string(shape_.block_size) +
         ", groups of heads at" + heads + ", window " + std::to_string(shape_.window) + ", queries/context" + chunks +
         ", " + std::to_string(num_merges_) + " tiles split" + (shape_.in_groups ? ", in groups" : "");
}

}  // namespace quire::kernels

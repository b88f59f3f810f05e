#include "kernels/cuda/decode_case.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/kernels/numbers.h"

namespace quire::kernels {

namespace {

constexpr int32_t kPoison = 1 << 30;  // a block id that no pool holds

int64_t TotalBlocks(const DecodeShape& s) {
  int64_t blocks = s.first_block + 2;  // two blocks stay free
  for (const int32_t context : s.context_len) blocks += (context + s.block_size - 1) / s.block_size;
  return blocks;
}

}  // namespace

DecodeCase::DecodeCase(DecodeShape shape, uint64_t seed)
    : shape_(std::move(shape)),
      kv_heads_(shape_.kv_head_of.back() + 1),
      max_context_(*std::max_element(shape_.context_len.begin(), shape_.context_len.end())),
      table_stride_(Blocks(max_context_) + 1),
      num_blocks_(TotalBlocks(shape_)),
      queries_(static_cast<int64_t>(shape_.context_len.size()) * RowElements() * ByteSize(shape_.dtype)),
      out_(queries_.size()),
      keys_(num_blocks_ * kv_heads_ * HeadElements() * ByteSize(shape_.CachedType())),
      values_(keys_.size()),
      tables_((NumSeqs() + 1) * table_stride_, kPoison),
      table_rows_(NumSeqs()),
      contexts_(shape_.context_len),
      kv_head_of_(shape_.kv_head_of),
      slopes_(static_cast<int64_t>(shape_.kv_head_of.size())),
      sinks_(static_cast<int64_t>(shape_.kv_head_of.size())),
      workspace_(DecodeWorkspaceFloats(max_context_, contexts_.size(), kv_head_of_.size(), shape_.head_size),
                 std::numeric_limits<float>::quiet_NaN()) {
  test::Random random(seed);
  for (int64_t seq = 0; seq < NumSeqs(); ++seq) table_rows_[seq] = static_cast<int32_t>(TableRow(seq));
  const int64_t numbers = queries_.size() / ByteSize(shape_.dtype);
  for (int64_t i = 0; i < numbers; ++i) {
    reference::WriteNumber(queries_.data(), shape_.dtype, i, random.Signed());
    reference::WriteNumber(out_.data(), shape_.dtype, i, kNaN);
  }
  for (int64_t h = 0; h < slopes_.size(); ++h) {
    slopes_[h] = 0.5f / static_cast<float>(h + 1);
    sinks_[h] = 2.0f - static_cast<float>(h);
  }
  const int64_t begin = shape_.first_block * kv_heads_ * HeadElements(), end = num_blocks_ * kv_heads_ * HeadElements();
  const int64_t number = ByteSize(shape_.CachedType());
  for (auto* pool : {&keys_, &values_}) {
    if (begin > 0) pool->Open(0, kv_heads_ * HeadElements() * number);  // every pool has a block 0
    pool->Open(begin * number, (end - begin) * number);
  }
  for (int64_t i = begin; i < end; ++i) {
    // Blocks that no sequence uses hold NaN, so that a kernel that reads them is found. But a maximum ignores NaN, so
    // this would not find a kernel that takes the maximum over too many scores. Therefore every second block has finite
    // keys with high scores.
    const bool finite = i / (kv_heads_ * HeadElements()) % 2 == 1;
    reference::WriteNumber(keys_.data(), shape_.CachedType(), i, finite ? 200 : kNaN);
    reference::WriteNumber(values_.data(), shape_.CachedType(), i, kNaN);
  }
  std::vector<int32_t> free_blocks(static_cast<size_t>(num_blocks_ - shape_.first_block));
  std::iota(free_blocks.begin(), free_blocks.end(), static_cast<int32_t>(shape_.first_block));
  for (size_t i = free_blocks.size(); i > 1; --i) {
    std::swap(free_blocks[i - 1], free_blocks[static_cast<size_t>(random.Below(static_cast<int64_t>(i)))]);
  }
  for (size_t s = 0; s < shape_.context_len.size(); ++s) FillSequence(s, free_blocks, random);
}

void DecodeCase::FillSequence(size_t seq, std::vector<int32_t>& free_blocks, test::Random& random) {
  const PagedCache cache = Cache();
  const int64_t context = shape_.context_len[seq];
  const int64_t first = shape_.window > 0 ? std::max<int64_t>(context - shape_.window, 0) : 0;
  for (int64_t t = first; t < context; ++t) {
    int32_t& block = tables_[TableRow(static_cast<int64_t>(seq)) * table_stride_ + t / shape_.block_size];
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

PagedCache DecodeCase::Cache() const {
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

PagedDecodeParams DecodeCase::Params() const {
  return {.dtype = shape_.dtype,
          .queries = queries_.data(),
          .query_stride = RowElements(),
          .out = out_.data(),
          .out_stride = RowElements(),
          .cache = Cache(),
          .block_tables = tables_.data(),
          .table_stride = table_stride_,
          .table_rows = shape_.resident_table ? table_rows_.data() : nullptr,
          .context_len = contexts_.data(),
          .kv_head_of = kv_head_of_.data(),
          .alibi_slopes = shape_.alibi ? slopes_.data() : nullptr,
          .num_seqs = static_cast<int32_t>(contexts_.size()),
          .num_heads = static_cast<int32_t>(kv_head_of_.size()),
          .max_context_len = max_context_,
          .scale = 0.3f,
          .soft_cap = shape_.soft_cap,
          .window = shape_.window,
          .workspace = workspace_.data(),
          .sinks = shape_.sinks ? sinks_.data() : nullptr};
}

std::vector<double> DecodeCase::Expected() const { return reference::PagedDecode(Params()); }

std::vector<float> DecodeCase::Output() const {
  std::vector<float> out;
  for (int64_t i = 0; i < out_.size() / ByteSize(shape_.dtype); ++i) {
    out.push_back(static_cast<float>(reference::ReadNumber(out_.data(), shape_.dtype, i)));
  }
  return out;
}

double DecodeCase::Tolerance() const {
  return shape_.dtype == NumberType::kF32 ? 4e-6 : shape_.dtype == NumberType::kF16 ? 0x1p-11 + 4e-6 : 0x1p-8 + 4e-6;
}

std::string DecodeCase::Name() const {
  std::string contexts, kv_heads;
  for (const int32_t context : shape_.context_len) contexts.append(" ").append(std::to_string(context));
  for (const int32_t head : shape_.kv_head_of) kv_heads.append(" ").append(std::to_string(head));
  return std::string(LayoutOf(shape_.dtype).name) + (shape_.fp8_cache ? ", fp8 cache" : "") + ", head_size " +
         std::to_string(shape_.head_size) + ", block_size " + std::to_string(shape_.block_size) + ", window " +
         std::to_string(shape_.window) + ", kv heads" + kv_heads + ", contexts" + contexts;
}

std::string DecodeCase::FirstWrong(const std::vector<float>& out) const {
  std::vector<double> spreads;
  const std::vector<double> expected = reference::PagedDecode(Params(), &spreads);
  const double unit = shape_.dtype == NumberType::kF32 ? 0 : shape_.dtype == NumberType::kF16 ? 0x1p-11 : 0x1p-8;
  for (size_t i = 0; i < out.size(); ++i) {
    if (std::abs(out[i] - expected[i]) <= reference::AttentionBound(unit, 4e-6, expected[i], spreads[i])) continue;
    return Name() + ": element " + std::to_string(i) + " is " + std::to_string(out[i]) + " instead of " +
           std::to_string(expected[i]);
  }
  return "";
}

}  // namespace quire::kernels

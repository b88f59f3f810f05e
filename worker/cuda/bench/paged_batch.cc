#include "worker/cuda/bench/paged_batch.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "worker/cuda/bench/bench.h"
#include "worker/cuda/bench/bench_kernels.h"

namespace quire::bench {

namespace {

constexpr auto kBF16 = NumberType::kBF16;

int64_t BlocksOf(int32_t context, int32_t block_size) { return (context + block_size - 1) / block_size; }

}  // namespace

PagedBatch::PagedBatch(const PagedShape& shape, Device& device)
    : shape_(shape), max_context_(*std::ranges::max_element(shape.contexts)) {
  table_stride_ = BlocksOf(max_context_, shape_.block_size);
  num_blocks_ = 0;
  for (const int32_t context : shape_.contexts) num_blocks_ += BlocksOf(context, shape_.block_size);
  const int64_t elements = num_blocks_ * shape_.block_size * shape_.kv_heads * shape_.head_size;
  sets_ = SetsFor(2 * elements * ElementBytes());
  keys_ = device.Allocate(sets_ * elements * ElementBytes(), "keys");
  values_ = device.Allocate(sets_ * elements * ElementBytes(), "values");
  FillRandom(device.stream(), keys_.as<void>(), sets_ * elements, shape_.cache, 1, 3);
  FillRandom(device.stream(), values_.as<void>(), sets_ * elements, shape_.cache, 1, 4);

  std::vector<int32_t> blocks(static_cast<size_t>(num_blocks_));
  std::iota(blocks.begin(), blocks.end(), 0);
  if (!shape_.ordered) std::shuffle(blocks.begin(), blocks.end(), std::minstd_rand(5));
  std::vector<int32_t> tables(shape_.contexts.size() * static_cast<size_t>(table_stride_), 0);
  auto next = blocks.begin();
  for (size_t s = 0; s < shape_.contexts.size(); ++s) {
    const int64_t count = BlocksOf(shape_.contexts[s], shape_.block_size);
    std::copy_n(next, count, tables.begin() + static_cast<int64_t>(s) * table_stride_);
    next += count;
  }
  std::vector<int32_t> kv_head_of;
  for (int32_t g = 0; g <= shape_.kv_heads; ++g) {
    host_head_start_.push_back(g * shape_.group);
    if (g < shape_.kv_heads) kv_head_of.insert(kv_head_of.end(), static_cast<size_t>(shape_.group), g);
  }
  host_tables_ = tables;
  tables_ = OnDevice(device, tables);
  contexts_ = OnDevice(device, shape_.contexts);
  kv_head_of_ = OnDevice(device, kv_head_of);
  head_start_ = OnDevice(device, host_head_start_);
}

double PagedBatch::context_sum() const {
  return static_cast<double>(std::accumulate(shape_.contexts.begin(), shape_.contexts.end(), int64_t{0}));
}

std::vector<int32_t> PagedBatch::BlocksOfSequence(size_t sequence) const {
  const auto begin = host_tables_.begin() + static_cast<int64_t>(sequence) * table_stride_;
  return {begin, begin + BlocksOf(shape_.contexts[sequence], shape_.block_size)};
}

double PagedBatch::kv_bytes() const {
  return 2 * context_sum() * shape_.kv_heads * shape_.head_size * static_cast<double>(ElementBytes());
}

kernels::PagedCache PagedBatch::Cache(int64_t set) const {
  const bool fp8 = shape_.cache == NumberType::kFp8E4M3;
  const int64_t stride = int64_t{shape_.block_size} * shape_.kv_heads * shape_.head_size;
  const int64_t offset = set * num_blocks_ * stride * ElementBytes();
  return {keys_.as() + offset,
          values_.as() + offset,
          stride,
          stride,
          shape_.kv_heads,
          shape_.head_size,
          shape_.block_size,
          shape_.cache,
          fp8 ? 0.5f : 1.0f,
          fp8 ? 0.5f : 1.0f};
}

}  // namespace quire::bench

// Sampling on the device against kernels/cpu/sampling.cc, over the emulator.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cuda/sampling_case.h"
#include "simt/expect_error.h"

namespace quire::kernels {
namespace {

std::string Describe(const SamplingRow& row) {
  return "temperature " + std::to_string(row.params.temperature) + ", top-k " + std::to_string(row.params.top_k) +
         ", top-p " + std::to_string(row.params.top_p) + ", min-p " + std::to_string(row.params.min_p);
}

/// Returns the number of near misses.
int ExpectLikeCpu(const std::vector<SamplingRow>& batch, const Drawn& drawn, const std::string& what) {
  int near_misses = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    EXPECT_EQ(Difference(batch[i], drawn.tokens[i], near_misses), "")
        << what << ", vocabulary " << batch[i].logits.size() << ", row " << i << ", " << Describe(batch[i]);
  }
  return near_misses;
}

std::vector<SamplingRow> RandomBatch(test::Random& random, int64_t vocab, int rows) {
  std::vector<SamplingRow> batch;
  for (int i = 0; i < rows; ++i) batch.push_back(RandomRow(random, vocab));
  return batch;
}

TEST(SamplingTest, DrawsWhatTheCpuDraws) {
  int near_misses = 0, rows = 0;
  for (const int64_t vocab : {1, 2, 3, 31, 255, 256, 257, 1000, 2999, 9001}) {
    for (uint64_t seed = 0; seed < 3; ++seed) {
      test::Random random(seed * 100'000 + static_cast<uint64_t>(vocab));
      simt::WithOptions options({.seed = seed, .switch_chance = seed == 2 ? 0.02 : 0.0});
      const auto batch = RandomBatch(random, vocab, vocab > 3000 ? 8 : 24);
      near_misses += ExpectLikeCpu(batch, DrawWhole(batch), "whole");
      rows += static_cast<int>(batch.size());
    }
  }
  std::printf("%d near misses of %d rows\n", near_misses, rows);
}

/// Sizes that add up to `vocab`; some may be empty.
std::vector<int64_t> Cut(test::Random& random, int64_t vocab, int shards) {
  std::vector<int64_t> sizes;
  for (int i = 1; i < shards; ++i) {
    sizes.push_back(random.Below(3) == 0 ? 0 : random.Below(vocab + 1));
    vocab -= sizes.back();
  }
  sizes.push_back(vocab);
  std::rotate(sizes.begin(), sizes.begin() + random.Below(shards), sizes.end());
  return sizes;
}

TEST(SamplingTest, ShardsDrawWhatTheCpuDraws) {
  int near_misses = 0, rows = 0, in_shard = 0, whole_row = 0;
  for (const int64_t vocab : {1, 2, 40, 257, 1000, 2999}) {
    for (const int shards : {1, 2, 3}) {
      for (const int candidates : {0, 7, 128}) {
        test::Random random(static_cast<uint64_t>(vocab * 1000 + shards * 10 + candidates));
        simt::WithOptions options({.seed = random.Bits()});
        const auto batch = RandomBatch(random, vocab, 8);
        const Drawn drawn = DrawSharded(batch, Cut(random, vocab, shards), candidates);
        near_misses += ExpectLikeCpu(batch, drawn, std::to_string(shards) + " shards");
        rows += static_cast<int>(batch.size()), in_shard += drawn.in_shard, whole_row += drawn.whole_row;
      }
    }
  }
  EXPECT_GT(in_shard, 10);  // every way was gone
  EXPECT_GT(whole_row, 10);
  EXPECT_LT(in_shard + whole_row, rows * 3 / 4);
  std::printf("%d near misses of %d rows; %d in a shard, %d whole rows\n", near_misses, rows, in_shard, whole_row);
}

}  // namespace
}  // namespace quire::kernels

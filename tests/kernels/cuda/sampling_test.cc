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

}  // namespace
}  // namespace quire::kernels

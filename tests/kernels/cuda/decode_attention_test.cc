#include "kernels/cuda/decode_attention.h"

#include <gtest/gtest.h>

#include "kernels/cuda/decode_attention_run.h"
#include "simt/expect_error.h"
#include "tests/support/expect_near.h"

namespace quire::kernels {
namespace {

void ExpectEqualsReference(const DecodeShape& shape, uint64_t seed, const DecodeCut& cut) {
  const DecodeAttentionRun run(shape, seed, cut);
  simt::WithOptions options({.seed = seed, .switch_chance = seed % 7 == 0 ? 0.02 : 0.0});
  DecodeAttention(CudaStream{}, run.Params());
  test::ExpectNear(run.Output(), run.of().Expected(), run.of().Tolerance(),
                   run.of().Name() + (run.plan().combine ? ", split" : ""));
  EXPECT_EQ(run.Padding(), std::vector<float>(run.Padding().size()));
}

const std::vector<std::vector<int32_t>> kGroupings = {
    {0, 1},                                                              // multi-head
    {0, 0, 0, 1, 1},                                                     // grouped, an uneven shard
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1},  // more rows than a tile has
};

TEST(DecodeAttentionTest, EqualsReferenceOverTypesAndShapes) {
  uint64_t seed = 0;
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    for (const CacheType cache : {CacheType::kSame, CacheType::kFp8E4M3}) {
      for (const int32_t head_size : {64, 80, 96, 128, 256}) {
        for (const int32_t block_size : {8, 16, 32, 64}) {
          ++seed;
          ExpectEqualsReference({dtype, cache, head_size, block_size, kGroupings[seed % 3], {1, 0, 77}}, seed,
                                {.num_ctas = 2, .min_units = 1, .stages = static_cast<int32_t>(2 + seed % 3)});
        }
      }
    }
  }
}

}  // namespace
}  // namespace quire::kernels

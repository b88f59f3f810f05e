#include "kernels/cuda/decode/decode_attention.h"

#include <gtest/gtest.h>

#include "kernels/cuda/decode_attention_run.h"
#include "simt/expect_error.h"
#include "tests/support/expect_near.h"

namespace quire::kernels {
namespace {

void ExpectDecodeEqualsReference(const DecodeShape& shape, uint64_t seed, const DecodeCut& cut) {
  const DecodeAttentionRun run(shape, seed, cut);
  simt::WithOptions options({.seed = seed, .switch_chance = seed % 7 == 0 ? 0.02 : 0.0});
  DecodeAttention(CudaStream{}, run.Params());
  EXPECT_EQ(run.of().FirstWrong(run.Output()), "") << (run.plan().combine ? "split" : "whole");
  EXPECT_EQ(run.Padding(), std::vector<float>(run.Padding().size()));
}

const std::vector<std::vector<int32_t>> kDecodeGroupings = {
    {0, 1},                                                              // multi-head
    {0, 0, 0, 1, 1},                                                     // grouped, an uneven shard
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1},  // more rows than a tile has
};

TEST(DecodeAttentionTest, DecodeAttention_EqualsReference_ForAllTypesAndShapes) {
  uint64_t seed = 0;
  for (const NumberType dtype : {NumberType::kF16, NumberType::kBF16}) {
    for (const bool fp8 : {false, true}) {
      for (const int32_t head_size : {64, 80, 96, 128, 256}) {
        for (const int32_t block_size : {8, 16, 32, 64}) {
          ++seed;
          ExpectDecodeEqualsReference({dtype, fp8, head_size, block_size, kDecodeGroupings[seed % 3], {1, 0, 77}}, seed,
                                      {.num_ctas = 2, .min_units = 1, .stages = static_cast<int32_t>(2 + seed % 3)});
        }
      }
    }
  }
}

TEST(DecodeAttentionTest, DecodeAttention_EqualsReference_ForManyContextLengths) {
  for (const int32_t block_size : {8, 16, 64}) {
    for (const bool fp8 : {false, true}) {
      const DecodeShape shape{.fp8_cache = fp8,
                              .head_size = 80,
                              .block_size = block_size,
                              .kv_head_of = {0, 0, 1},
                              .context_len = {2, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 200, 333}};
      ExpectDecodeEqualsReference(shape, static_cast<uint64_t>(block_size), {.num_ctas = 5});
    }
  }
}

TEST(DecodeAttentionTest, DecodeAttention_EqualsReference_WhenContextsAreSplit) {
  uint64_t seed = 100;
  for (const NumberType dtype : {NumberType::kF16, NumberType::kBF16}) {
    for (const int32_t head_size : {64, 96, 256}) {
      for (const int32_t num_ctas : {3, 7, 40}) {
        const bool fp8 = ++seed % 2 == 0;
        const DecodeShape shape{dtype, fp8, head_size, 16, {0, 0, 1}, {1, 0, 700, 64}};
        const DecodeCut cut{.num_ctas = num_ctas, .min_units = 1};
        EXPECT_TRUE(DecodeAttentionRun(shape, seed, cut).plan().combine);
        ExpectDecodeEqualsReference(shape, seed, cut);
      }
    }
  }
}

TEST(DecodeAttentionTest, DecodeAttention_EqualsReference_AndReadsNothingBeforeTheWindow) {
  uint64_t seed = 200;
  for (const int32_t window : {1, 2, 8, 24, 50, 64, 129, 250, 5000}) {
    for (const int32_t block_size : {8, 64}) {
      const bool fp8 = ++seed % 3 == 0;
      ExpectDecodeEqualsReference({.dtype = NumberType::kF16,
                                   .fp8_cache = fp8,
                                   .block_size = block_size,
                                   .kv_head_of = {0, 0},
                                   .context_len = {1, 60, 0, 512},
                                   .window = window},
                                  seed, {.num_ctas = 4, .min_units = 1});
    }
  }
}

TEST(DecodeAttentionTest, AlibiAndSoftCap_EqualReference_InWholeAndSplitContexts) {
  for (const bool alibi : {false, true}) {
    for (const float soft_cap : {0.0f, 1.5f}) {
      for (const int32_t num_ctas : {1, 6}) {
        DecodeShape shape{.dtype = NumberType::kF16, .context_len = {1, 40, 300}, .soft_cap = soft_cap, .alibi = alibi};
        ExpectDecodeEqualsReference(shape, 300, {.num_ctas = num_ctas, .min_units = 1});
        shape.window = 37, shape.fp8_cache = true;
        ExpectDecodeEqualsReference(shape, 301, {.num_ctas = num_ctas, .min_units = 1});
      }
    }
  }
}

TEST(DecodeAttentionTest, DecodeAttention_EqualsReference_WithSinksInWholeAndSplitContexts) {
  for (const int32_t num_ctas : {1, 6}) {
    DecodeShape shape{.dtype = NumberType::kF16, .context_len = {1, 40, 300}, .sinks = true};
    ExpectDecodeEqualsReference(shape, 310, {.num_ctas = num_ctas, .min_units = 1});
    shape.soft_cap = 1.5f, shape.window = 37, shape.fp8_cache = true;
    ExpectDecodeEqualsReference(shape, 311, {.num_ctas = num_ctas, .min_units = 1});
  }
}

TEST(DecodeAttentionTest, DecodeAttention_EqualsReference_WithTablesInAnyRowsAndPaddedBatches) {
  for (uint64_t seed = 400; seed < 404; ++seed) {
    const DecodeShape shape{.block_size = seed % 2 == 0 ? 8 : 32, .context_len = {130, 1, 5, 300}};
    ExpectDecodeEqualsReference(shape, seed, {.num_ctas = 5, .min_units = 1, .padding = 4, .table_rows = true});
    ExpectDecodeEqualsReference({.context_len = {0, 0}}, seed, {.num_ctas = 9, .table_rows = seed % 2 == 0});
  }
}

TEST(DecodeAttentionTest, Results_HaveTheSameBits_InEveryThreadOrder) {
  const DecodeShape shape{.context_len = {40, 300}};
  std::vector<float> first;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const DecodeAttentionRun run(shape, 9, {.num_ctas = 3, .min_units = 1});
    simt::WithOptions options({.seed = seed, .switch_chance = 0.1});
    DecodeAttention(CudaStream{}, run.Params());
    if (seed == 1) first = run.Output();
    EXPECT_EQ(run.Output(), first);
  }
}

TEST(DecodeAttentionTest, LargeScores_DoNotOverflow) {
  const DecodeAttentionRun run({.dtype = NumberType::kF16, .context_len = {40, 300}}, 5,
                               {.num_ctas = 4, .min_units = 1});
  DecodeAttentionParams params = run.Params();
  PagedDecodeParams reference = run.of().Params();
  params.scale = reference.scale = 500;
  DecodeAttention(CudaStream{}, params);
  test::ExpectNear(run.Output(), reference::PagedDecode(reference), 2e-3, "scores in the thousands");
}

TEST(DecodeAttentionTest, BlockOffsets_MayExceed32Bits) {
  // Block ids begin at 1,100,000 and a block has 2,048 elements, so that offsets begin at 2.2e9. Untouched pages of the
  // pool take no memory.
  const DecodeShape shape{.kv_head_of = {0, 0, 1, 1}, .context_len = {40, 3}, .first_block = 1'100'000};
  ExpectDecodeEqualsReference(shape, 6, {});
}

TEST(DecodeAttentionTest, Combine_ChangesNothing_WhenNoContextIsSplit) {
  const DecodeAttentionRun run({.context_len = {40, 3}}, 7, {.num_ctas = 4});
  EXPECT_FALSE(run.plan().combine);
  DecodeAttentionParams params = run.Params();
  params.combine = true;  // a CUDA graph that serves any batch combines always
  DecodeAttention(CudaStream{}, params);
  test::ExpectNear(run.Output(), run.of().Expected(), run.of().Tolerance(), "combined in vain");
}

TEST(DecodeAttentionTest, Emulator_FindsATableEntryOutsideThePool) {
  const DecodeAttentionRun run({.context_len = {40}}, 8, {});
  const DecodeAttentionParams params = run.Params();
  const simt::DeviceBuffer<int32_t> table(std::vector<int32_t>{0, 1, 1 << 30, 0});
  DecodeAttentionParams wrong = params;
  wrong.block_tables = table.data();
  simt::ExpectError([&] { DecodeAttention(CudaStream{}, wrong); }, "global access out of bounds");
}

}  // namespace
}  // namespace quire::kernels

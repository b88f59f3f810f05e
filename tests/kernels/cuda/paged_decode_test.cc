#include "kernels/cuda/paged/paged_decode.h"

#include <gtest/gtest.h>

#include "kernels/cuda/decode_case.h"
#include "simt/expect_error.h"
#include "tests/support/expect_near.h"

namespace quire::kernels {
namespace {

using Op = void (*)(const CudaStream&, const PagedDecodeParams&);

std::vector<float> ExpectPagedDecodeEqualsReference(const DecodeShape& shape, uint64_t seed, Op op) {
  DecodeCase c(shape, seed);
  simt::WithOptions options({.seed = seed, .switch_chance = seed % 5 == 0 ? 0.05 : 0.0});
  op(CudaStream{}, c.Params());
  test::ExpectNear(c.Output(), c.Expected(), c.Tolerance(), c.Name());
  return c.Output();
}

const std::vector<std::vector<int32_t>> kGroupings = {
    {0, 1, 2},        // multi-head
    {0, 0, 0, 1, 1},  // grouped, an uneven shard
    {0, 0, 0, 0},     // multi-query
};

TEST(PagedDecodeTest, PagedDecode_EqualsReference_ForAllTypesAndShapes) {
  uint64_t seed = 0;
  for (const NumberType dtype : {NumberType::kF32, NumberType::kF16, NumberType::kBF16}) {
    for (const bool fp8 : {false, true}) {
      for (const int32_t head_size : {64, 80, 96, 128, 256, 512}) {
        for (const int32_t block_size : {8, 16, 32, 64}) {
          const auto& grouping = kGroupings[++seed % kGroupings.size()];
          ExpectPagedDecodeEqualsReference({dtype, fp8, head_size, block_size, grouping, {1, 0, 65, 17}}, seed,
                                           PagedDecodeV1);
        }
      }
    }
  }
}

TEST(PagedDecodeTest, PagedDecode_EqualsReference_ForManyContextLengths) {
  for (const int32_t block_size : {8, 16, 32, 64}) {
    ExpectPagedDecodeEqualsReference({.head_size = 80,
                                      .block_size = block_size,
                                      .kv_head_of = {0, 0},
                                      .context_len = {2, 7, 8, 9, 15, 16, 31, 32, 33, 63, 64, 200, 333}},
                                     77, PagedDecodeV1);
  }
}

TEST(PagedDecodeTest, PagedDecode_EqualsReference_WhenContextsEndAroundPartitions) {
  uint64_t seed = 100;
  for (const NumberType dtype : {NumberType::kF32, NumberType::kF16, NumberType::kBF16}) {
    for (const int32_t block_size : {8, 16, 32, 64}) {
      const DecodeShape shape{.dtype = dtype,
                              .fp8_cache = block_size == 32,
                              .block_size = block_size,
                              .kv_head_of = {0, 0},
                              .context_len = {1, 511, 512, 513, 0, 1300}};
      ExpectPagedDecodeEqualsReference(shape, ++seed, PagedDecodeV1);
      ExpectPagedDecodeEqualsReference(shape, seed, PagedDecodeV2);
    }
  }
}

TEST(PagedDecodeTest, PagedDecode_EqualsReference_WithSinksAndResidentTables) {
  uint64_t seed = 150;
  for (const NumberType dtype : {NumberType::kF32, NumberType::kF16, NumberType::kBF16}) {
    for (const auto& [sinks, resident] : {std::pair{true, false}, {false, true}, {true, true}}) {
      const DecodeShape shape{.dtype = dtype,
                              .kv_head_of = {0, 0, 1},
                              .context_len = {1, 40, 0, 600, 1300},
                              .window = seed % 2 == 0 ? 0 : 700,
                              .soft_cap = 1.5f,
                              .sinks = sinks,
                              .resident_table = resident};
      ExpectPagedDecodeEqualsReference(shape, ++seed, PagedDecodeV1);
      ExpectPagedDecodeEqualsReference(shape, seed, PagedDecodeV2);
    }
  }
}

TEST(PagedDecodeTest, PagedDecode_EqualsReference_AndReadsNothingBeforeTheWindow) {
  uint64_t seed = 200;
  for (const int32_t window : {1, 2, 8, 24, 50, 512, 513, 700, 5000}) {
    for (const int32_t block_size : {8, 64}) {
      const DecodeShape shape{.dtype = NumberType::kF32,
                              .block_size = block_size,
                              .kv_head_of = {0, 0},
                              .context_len = {1, 60, 0, 512, 1100},
                              .window = window};
      ExpectPagedDecodeEqualsReference(shape, ++seed, PagedDecodeV1);
      ExpectPagedDecodeEqualsReference(shape, seed, PagedDecodeV2);
    }
  }
}

TEST(PagedDecodeTest, AlibiAndSoftCap_EqualReference_InV1AndV2) {
  for (const bool alibi : {false, true}) {
    for (const float soft_cap : {0.0f, 1.5f}) {
      for (const Op op : {PagedDecodeV1, PagedDecodeV2}) {
        DecodeShape shape{.dtype = NumberType::kF32, .context_len = {1, 40, 600}, .window = 0, .soft_cap = soft_cap};
        shape.alibi = alibi;
        ExpectPagedDecodeEqualsReference(shape, 300, op);
        shape.window = 37;
        ExpectPagedDecodeEqualsReference(shape, 301, op);
      }
    }
  }
}

TEST(PagedDecodeTest, Results_HaveTheSameBits_InEveryThreadOrder) {
  const DecodeShape shape{.context_len = {40, 700}};
  std::vector<float> first;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    DecodeCase c(shape, 9);
    simt::WithOptions options({.seed = seed, .switch_chance = 0.1});
    PagedDecodeV2(CudaStream{}, c.Params());
    if (seed == 1) first = c.Output();
    EXPECT_EQ(c.Output(), first);
  }
}

TEST(PagedDecodeTest, LargeScores_DoNotOverflow) {
  DecodeCase c({.dtype = NumberType::kF32, .context_len = {40, 900}}, 5);
  PagedDecodeParams p = c.Params();
  p.scale = 500;
  for (const Op op : {PagedDecodeV1, PagedDecodeV2}) {
    op(CudaStream{}, p);
    test::ExpectNear(c.Output(), reference::PagedDecode(p), 1e-3, "scores in the thousands");
  }
}

TEST(PagedDecodeTest, BlockOffsets_MayExceed32Bits) {
  // Block ids begin at 600,000 and a block has 4,096 elements, so that offsets begin at 2.4e9. Untouched pages of the
  // pool take no memory.
  ExpectPagedDecodeEqualsReference({.dtype = NumberType::kF32,
                                    .head_size = 128,
                                    .kv_head_of = {0, 0, 1, 1},
                                    .context_len = {40, 3},
                                    .first_block = 600'000},
                                   6, PagedDecodeV1);
}

TEST(PagedDecodeTest, PrefersV1_IsTrue_WhenThereAreEnoughThreadBlocksOrNothingToSplit) {
  EXPECT_TRUE(PrefersV1(0, 1, 1));
  EXPECT_TRUE(PrefersV1(512, 1, 1));
  EXPECT_FALSE(PrefersV1(513, 1, 1));
  EXPECT_FALSE(PrefersV1(513, 16, 32));  // 512 blocks: not more than 512
  EXPECT_TRUE(PrefersV1(513, 27, 19));
  EXPECT_TRUE(PrefersV1(8192, 64, 32));
  EXPECT_FALSE(PrefersV1(8193, 64, 32));
}

TEST(PagedDecodeTest, Emulator_FindsATableEntryOutsideThePool) {
  DecodeCase c({.context_len = {40}}, 8);
  PagedDecodeParams p = c.Params();
  // The context reaches a table entry that is not set.
  const simt::DeviceBuffer<int32_t> longer(std::vector<int32_t>{50});
  p.context_len = longer.data();
  simt::ExpectError([&] { PagedDecodeV1(CudaStream{}, p); }, "paged_decode.cuh");
}

}  // namespace
}  // namespace quire::kernels

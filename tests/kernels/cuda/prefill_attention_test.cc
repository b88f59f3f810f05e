#include "kernels/cuda/prefill/prefill_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "kernels/cuda/prefill/prefill_attention_groups.cuh"
#include "kernels/cuda/prefill_case.h"
#include "simt/expect_error.h"
#include "tests/support/random.h"

namespace quire::kernels {
namespace {

/// Runs every kernel that supports the shape, and compares with the reference.
void ExpectPrefillEqualsReference(PrefillShape shape, uint64_t seed) {
  const bool has_groups = shape.dtype != NumberType::kF32 && (shape.head_size == 64 || shape.head_size == 128);
  for (const bool in_groups : {false, true}) {
    if (in_groups && !has_groups) continue;
    shape.in_groups = in_groups;
    PrefillCase c(shape, seed);
    simt::WithOptions options({.seed = seed, .switch_chance = seed % 7 == 0 ? 0.02 : 0.0});
    PrefillAttention(CudaStream{}, c.Params());
    EXPECT_EQ(c.Wrong(), "");
  }
}

const std::vector<std::vector<int32_t>> kPrefillGroupings = {
    {0, 1, 2},  // multi-head
    {0, 3, 5},  // grouped, an uneven shard
    {0, 4},     // multi-query
};

TEST(PrefillAttentionTest, PrefillAttention_EqualsReference_ForAllTypesAndShapes) {
  uint64_t seed = 0;
  for (const NumberType dtype : {NumberType::kF32, NumberType::kF16, NumberType::kBF16}) {
    for (const bool fp8 : {false, true}) {
      for (const int32_t head_size : {64, 80, 96, 128, 256, 512}) {
        for (const int32_t block_size : {8, 16, 32, 64}) {
          const auto& grouping = kPrefillGroupings[++seed % kPrefillGroupings.size()];
          const std::vector<Chunk> chunks{{3, 3}, {1, 33}, {2, 0}, {0, 9}, {5, 70}};
          ExpectPrefillEqualsReference({dtype, fp8, head_size, block_size, grouping, chunks}, seed);
        }
      }
    }
  }
}

TEST(PrefillAttentionTest, PrefillAttention_EqualsReference_ForManyChunks) {
  const std::vector<std::vector<Chunk>> batches = {
      {{1, 1}, {2, 2}, {63, 63}, {64, 64}, {65, 65}},  // fresh prompts around a tile's length
      {{33, 140}, {64, 128}, {7, 191}},                // chunks at offsets
      {{40, 300}, {129, 400}},                         // over several of the longest tiles
      {{1, 64}, {1, 65}, {1, 200}},                    // decodes
      {{0, 0}, {4, 0}, {150, 150}, {0, 77}},           // empty sequences around a sequence with queries
  };
  uint64_t seed = 300;
  for (const std::vector<Chunk>& chunks : batches) {
    for (const NumberType dtype : {NumberType::kF32, NumberType::kBF16}) {
      const bool resident_table = ++seed % 4 < 2;
      ExpectPrefillEqualsReference(
          {.dtype = dtype, .head_start = {0, 2}, .chunks = chunks, .resident_table = resident_table}, seed);
    }
  }
}

TEST(PrefillAttentionTest, PrefillAttention_EqualsReference_ForGroupsOfManySizes) {
  uint64_t seed = 400;
  // Cases: a group with one query head more than a tile has rows; a group with a prime number of heads; groups of 1, 5,
  // 0 and 3 heads.
  for (const std::vector<int32_t>& head_start :
       {std::vector<int32_t>{0, 129}, std::vector<int32_t>{0, 7}, std::vector<int32_t>{0, 1, 6, 6, 9}}) {
    for (const NumberType dtype : {NumberType::kF32, NumberType::kBF16}) {
      ExpectPrefillEqualsReference({.dtype = dtype, .head_start = head_start, .chunks = {{2, 3}, {2, 50}}}, ++seed);
    }
  }
}

TEST(PrefillAttentionTest, PrefillAttention_EqualsReference_AndReadsNothingBeforeTheWindow) {
  uint64_t seed = 500;
  for (const int32_t window : {1, 2, 8, 24, 63, 64, 65, 100, 5000}) {
    const NumberType dtype = ++seed % 3 == 0 ? NumberType::kF32 : NumberType::kF16;
    ExpectPrefillEqualsReference({.dtype = dtype,
                                  .block_size = seed % 2 == 0 ? 8 : 64,
                                  .head_start = {0, 2},
                                  .chunks = {{1, 1}, {70, 70}, {0, 30}, {1, 150}, {40, 207}},
                                  .window = window},
                                 seed);
  }
}

TEST(PrefillAttentionTest, AlibiAndSoftCap_EqualReference_WithAndWithoutAWindow) {
  uint64_t seed = 600;
  for (const bool alibi : {false, true}) {
    for (const float soft_cap : {0.0f, 1.5f}) {
      for (const int32_t window : {0, 37}) {
        for (const NumberType dtype : {NumberType::kF32, NumberType::kF16}) {
          ExpectPrefillEqualsReference({.dtype = dtype,
                                        .fp8_cache = window > 0,
                                        .chunks = {{1, 40}, {20, 90}},
                                        .window = window,
                                        .soft_cap = soft_cap,
                                        .alibi = alibi},
                                       ++seed);
        }
      }
    }
  }
}

TEST(PrefillAttentionTest, PrefillAttention_EqualsReference_WithSinks) {
  uint64_t seed = 650;
  for (const NumberType dtype : {NumberType::kF32, NumberType::kF16, NumberType::kBF16}) {
    for (const float soft_cap : {0.0f, 1.5f}) {
      ExpectPrefillEqualsReference(
          {.dtype = dtype, .chunks = {{1, 40}, {20, 90}, {3, 3}}, .window = 37, .soft_cap = soft_cap, .sinks = true},
          ++seed);
    }
  }
}

TEST(PrefillAttentionTest, Results_HaveTheSameBits_InEveryThreadOrder) {
  for (const auto& [fp8, in_groups] : {std::pair{false, false}, {true, false}, {false, true}, {true, true}}) {
    std::vector<float> first;
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      const int32_t head_size = in_groups ? 64 : 96;
      PrefillCase c({.fp8_cache = fp8, .head_size = head_size, .chunks = {{40, 150}}, .in_groups = in_groups}, 9);
      simt::WithOptions options({.seed = seed, .switch_chance = 0.1});
      PrefillAttention(CudaStream{}, c.Params());
      if (seed == 1) first = c.Output();
      EXPECT_EQ(c.Output(), first);
    }
  }
}

TEST(PrefillAttentionTest, Results_HaveTheSameBits_HoweverAPromptIsCutIntoChunks) {
  for (const auto& [dtype, in_groups] :
       {std::pair{NumberType::kF32, false}, {NumberType::kBF16, false}, {NumberType::kBF16, true}}) {
    for (const int32_t window : {0, 50}) {
      const PrefillShape shape{
          .dtype = dtype, .head_start = {0, 2}, .chunks = {{150, 150}}, .window = window, .in_groups = in_groups};
      PrefillCase whole(shape, 10), cut(shape, 10);
      PrefillAttention(CudaStream{}, whole.Params());
      EXPECT_EQ(whole.Wrong(), "");
      int32_t context = 0;
      for (const int32_t queries : {1, 63, 2, 17, 67}) {
        cut.Cut(queries, context += queries);
        PrefillAttention(CudaStream{}, cut.Params());
      }
      EXPECT_EQ(cut.Output(), whole.Output());
    }
  }
}

TEST(PrefillAttentionTest, PrefillAttention_EqualsReference_WhenFewTilesAreSplitByPosition) {
  uint64_t seed = 700;
  // Cases: one short suffix; two suffixes, of which one is short; a window that begins within a part; a window that
  // lies within the last part.
  const std::tuple<std::vector<Chunk>, int32_t, int64_t> batches[] = {
      {{{5, 1100}}, 0, 1}, {{{3, 2100}, {2, 0}, {9, 90}}, 0, 1}, {{{20, 1900}}, 1200, 1}, {{{20, 1900}}, 500, 0}};
  for (const auto& [chunks, window, merges] : batches) {
    for (const auto& [dtype, fp8, head_size, in_groups] : {std::tuple{NumberType::kF16, false, 64, false},
                                                           {NumberType::kBF16, true, 80, false},
                                                           {NumberType::kBF16, false, 128, false},
                                                           {NumberType::kF16, false, 256, false},
                                                           {NumberType::kF16, false, 128, true},
                                                           {NumberType::kBF16, true, 64, true}}) {
      PrefillCase c({.dtype = dtype,
                     .fp8_cache = fp8,
                     .head_size = head_size,
                     .head_start = {0, 3, 4},
                     .chunks = chunks,
                     .window = window,
                     .soft_cap = ++seed % 3 == 0 ? 1.5f : 0.0f,
                     .sinks = seed % 2 == 0,
                     .first_sink = 7,
                     .split = {.num_ctas = 8},
                     .in_groups = in_groups},
                    seed);
      EXPECT_EQ(c.num_merges(), merges);
      PrefillAttention(CudaStream{}, c.Params());
      EXPECT_EQ(c.Wrong(), "");
    }
  }
}

TEST(PrefillAttentionTest, PrefillAttention_EqualsReference_WhenSplitTilesHoldGroupsOfDifferentSizes) {
  uint64_t seed = 800;
  for (const auto& heads : {std::vector<int32_t>{0, 3, 4}, std::vector<int32_t>{0, 1, 6}}) {
    for (const int32_t window : {0, 1150}) {
      for (const auto& [dtype, in_groups] :
           {std::pair{NumberType::kF16, false}, {NumberType::kBF16, true}, {NumberType::kF16, true}}) {
        PrefillCase c({.dtype = dtype,
                       .head_start = heads,
                       .chunks = {{60, 1260}},
                       .window = window,
                       .split = {.num_ctas = 16},
                       .in_groups = in_groups},
                      ++seed);
        EXPECT_GT(c.num_merges(), 0);
        PrefillAttention(CudaStream{}, c.Params());
        EXPECT_EQ(c.Wrong(), "");
      }
    }
  }
}

TEST(PrefillAttentionTest, PrefillAttention_EqualsReference_WhenAKvHeadSeesNothingOfAPart) {
  // The tile of rows from 1280 on has queries from 640 on of the first KV head, and queries from 1280 on of the other
  // head. The window of these later queries begins after the tile's first part.
  for (const bool in_groups : {false, true}) {
    PrefillCase c({.head_start = {0, 2, 3},
                   .chunks = {{1300, 1300}},
                   .window = 400,
                   .split = {.num_ctas = 64},
                   .in_groups = in_groups},
                  900);
    EXPECT_GT(c.num_merges(), 0);
    PrefillAttention(CudaStream{}, c.Params());
    EXPECT_EQ(c.Wrong(), "");
  }
}

TEST(PrefillAttentionTest, LargeScores_DoNotOverflow) {
  for (const NumberType dtype : {NumberType::kF32, NumberType::kBF16}) {
    ExpectPrefillEqualsReference({.dtype = dtype, .chunks = {{30, 130}}, .scale = 500}, 11);
  }
}

TEST(PrefillAttentionTest, BlockOffsets_MayExceed32Bits) {
  // Block ids begin at 600,000 and a block has 4,096 elements, so that offsets begin at 2.4e9. Untouched pages of the
  // pool take no memory.
  for (const NumberType dtype : {NumberType::kF32, NumberType::kBF16}) {
    ExpectPrefillEqualsReference({.dtype = dtype, .head_size = 128, .chunks = {{3, 40}}, .first_block = 600'000}, 12);
  }
}

TEST(PrefillAttentionTest, Emulator_FindsATableEntryOutsideThePool) {
  PrefillCase c({.chunks = {{3, 40}}}, 13);
  PrefillAttentionParams p = c.Params();
  // The context reaches a table entry that is not set.
  const simt::DeviceBuffer<int32_t> longer(std::vector<int32_t>{50});
  p.context_len = longer.data();
  simt::ExpectError([&] { PrefillAttention(CudaStream{}, p); }, "prefill_attention_tiles.cuh");
}

TEST(PrefillTilesTest, UnitOf_PutsEightRowsIntoDifferentBanks) {
  const auto banks = [](const std::vector<int>& elements) {
    std::set<int> distinct;
    for (const int e : elements) distinct.insert(e / 8 % 8);  // 8 units of 16 bytes fill the 128 bytes of all banks
    return distinct.size();
  };
  for (const int rows : {32, 64, 80, 96, 128, 256}) {
    for (int group = 0; group < 4; ++group) {
      for (int row = 0; row < rows; row += 8) {
        std::vector<int> matrix, sectors;
        for (int i = 0; i < 8; ++i) matrix.push_back(UnitOf(group, row + i, rows));
        for (int i = 0; i < 8; ++i) sectors.push_back(UnitOf(group / 2 * 2 + i % 2, row + group % 2 * 4 + i / 2, rows));
        EXPECT_EQ(banks(matrix), 8u);
        EXPECT_EQ(banks(sectors), 8u);
        matrix.clear(), sectors.clear();
        for (int i = 0; i < 8; ++i) matrix.push_back(GroupTiles::UnitAt(group, row + i, rows));
        for (int i = 0; i < 8; ++i) sectors.push_back(GroupTiles::UnitAt(group / 2 * 2 + i % 2, row + i / 2, rows));
        EXPECT_EQ(banks(matrix), 8u);
        EXPECT_EQ(banks(sectors), 8u);
      }
    }
  }
}

}  // namespace
}  // namespace quire::kernels

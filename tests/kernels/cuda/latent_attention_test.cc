#include "kernels/cuda/latent/latent_attention.h"

#include <gtest/gtest.h>

#include "kernels/cuda/latent_case.h"
#include "simt/expect_error.h"

namespace quire::kernels {
namespace {

void ExpectEqualsReference(const LatentShape& shape, uint64_t seed) {
  const LatentCase c(shape, seed);
  const simt::WithOptions options({.seed = seed, .switch_chance = seed % 5 == 0 ? 0.01 : 0.0});
  c.Run();
  EXPECT_EQ(c.Wrong(), "");
}

TEST(LatentPrefillTest, LatentPrefill_EqualsReference_ForAllTypesTilesAndBlocks) {
  uint64_t seed = 0;
  for (const NumberType dtype : {NumberType::kF16, NumberType::kBF16}) {
    for (const bool fp8 : {false, true}) {
      for (const int32_t tile_rows : {16, 64}) {
        for (const int32_t block_size : {8, 16, 32, 64}) {
          if (++seed % 2 == 0 && fp8) continue;
          ExpectEqualsReference({.dtype = dtype,
                                 .fp8_cache = fp8,
                                 .block_size = block_size,
                                 .chunks = {{3, 3}, {1, 33}, {2, 0}, {0, 9}, {9, 70}},
                                 .tile_rows = tile_rows,
                                 .resident_table = seed % 3 == 0},
                                seed);
        }
      }
    }
  }
}

TEST(LatentPrefillTest, LatentPrefill_EqualsReference_WithoutTensorCores) {
  uint64_t seed = 50;
  for (const auto& [rotated, rank] : {std::pair{64, 512}, {16, 64}, {8, 24}, {64, 256}}) {
    for (const NumberType dtype : {NumberType::kF32, NumberType::kBF16}) {
      for (const bool fp8 : {false, true}) {
        if (fp8 && (rotated + rank) % 16 != 0) continue;
        ExpectEqualsReference({.dtype = dtype,
                               .fp8_cache = fp8,
                               .rotated_dim = rotated,
                               .rank = rank,
                               .block_size = ++seed % 2 == 0 ? 8 : 32,
                               .chunks = {{3, 3}, {1, 33}, {2, 0}, {9, 70}}},
                              seed);
      }
    }
  }
}

TEST(LatentPrefillTest, LatentPrefill_EqualsReference_ForManyHeadsAndChunks) {
  uint64_t seed = 100;
  for (const int32_t heads : {1, 5, 20, 65}) {
    ExpectEqualsReference(
        {.heads = heads, .chunks = {{2, 2}, {3, 40}, {1, 64}, {1, 65}}, .tile_rows = heads > 20 ? 64 : 16}, ++seed);
  }
}

TEST(LatentPrefillTest, LatentPrefill_EqualsReference_WhenFewTilesAreSplitByPosition) {
  uint64_t seed = 200;
  for (const auto& [dtype, fp8, tile_rows] :
       {std::tuple{NumberType::kF16, false, 64}, {NumberType::kBF16, true, 64}, {NumberType::kBF16, false, 16}}) {
    LatentCase c({.dtype = dtype,
                  .fp8_cache = fp8,
                  .heads = 2,
                  .chunks = {{3, 1100}, {2, 0}, {4, 90}},
                  .tile_rows = tile_rows,
                  .num_ctas = 6},
                 ++seed);
    EXPECT_GT(c.num_merges(), 0);
    c.Run();
    EXPECT_EQ(c.Wrong(), "");
  }
}

TEST(LatentPrefillTest, Results_HaveTheSameBits_HoweverAPromptIsCutIntoChunks) {
  for (const auto& [dtype, rank] : {std::pair{NumberType::kF32, 64}, {NumberType::kBF16, kLatentRank}}) {
    const LatentShape shape{.dtype = dtype, .rank = rank, .heads = 2, .chunks = {{80, 80}}};
    LatentCase whole(shape, 10), cut(shape, 10);
    whole.Run();
    EXPECT_EQ(whole.Wrong(), "");
    int32_t context = 0;
    for (const int32_t queries : {1, 33, 2, 17, 27}) {
      cut.Cut(queries, context += queries);
      cut.Run();
    }
    EXPECT_EQ(cut.Output(), whole.Output());
  }
}

TEST(LatentDecodeTest, LatentDecode_EqualsReference_ForAllTypesAndBlocks) {
  uint64_t seed = 300;
  for (const NumberType dtype : {NumberType::kF16, NumberType::kBF16}) {
    for (const bool fp8 : {false, true}) {
      for (const int32_t block_size : {8, 16, 32, 64}) {
        ExpectEqualsReference({.dtype = dtype,
                               .fp8_cache = fp8,
                               .decodes = true,
                               .heads = ++seed % 2 == 0 ? 3 : 16,
                               .block_size = block_size,
                               .chunks = {{1, 1}, {1, 0}, {1, 33}, {1, 64}, {1, 129}, {1, 0}},
                               .num_ctas = 3,
                               .resident_table = seed % 3 == 0},
                              seed);
      }
    }
  }
}

TEST(LatentDecodeTest, LatentDecode_EqualsReference_WhenContextsAndHeadsAreSplit) {
  uint64_t seed = 400;
  for (const int32_t heads : {2, 20, 33}) {
    for (const bool fp8 : {false, true}) {
      if (fp8 && heads == 33) continue;
      const LatentCase c(
          {.fp8_cache = fp8, .decodes = true, .heads = heads, .chunks = {{1, 1100}, {1, 40}, {1, 0}}, .num_ctas = 5},
          ++seed);
      EXPECT_GT(c.num_merges(), 0);
      c.Run();
      EXPECT_EQ(c.Wrong(), "");
    }
  }
}

TEST(LatentDecodeTest, Results_HaveTheSameBits_InEveryThreadOrder) {
  for (const bool decodes : {false, true}) {
    std::vector<float> first;
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      const LatentCase c({.fp8_cache = true, .decodes = decodes, .chunks = {{1, 100}, {1, 40}}, .num_ctas = 2}, 9);
      const simt::WithOptions options({.seed = seed, .switch_chance = 0.05});
      c.Run();
      if (seed == 1) first = c.Output();
      EXPECT_EQ(c.Output(), first);
    }
  }
}

TEST(LatentAttentionTest, LargeScores_DoNotOverflow) {
  ExpectEqualsReference({.chunks = {{5, 70}}, .scale = 50}, 11);
  ExpectEqualsReference({.decodes = true, .chunks = {{1, 70}}, .num_ctas = 1, .scale = 50}, 12);
}

TEST(LatentAttentionTest, BlockOffsets_MayExceed32Bits) {
  // A block has 9,216 elements, so offsets begin at 2.4e9. Untouched pages of the pool take no memory.
  for (const bool decodes : {false, true})
    ExpectEqualsReference({.decodes = decodes, .chunks = {{1, 40}}, .num_ctas = 1, .first_block = 260'000}, 13);
  ExpectEqualsReference({.dtype = NumberType::kF32, .chunks = {{2, 40}}, .first_block = 260'000}, 14);
}

TEST(LatentSizesTest, TilesAndGrid_FitTheSharedMemoryOfTheDevice) {
  const auto rows = [](int64_t shared) {
    return LatentTileRows(NumberType::kBF16, kLatentHeadSize, kLatentRank, shared);
  };
  EXPECT_EQ(rows(227 << 10), 64);          // H100
  EXPECT_EQ(rows(163 << 10), 64);          // A100
  EXPECT_EQ(rows(99 << 10), kDecodeRows);  // L40S
  EXPECT_EQ(LatentTileRows(NumberType::kF32, kLatentHeadSize, kLatentRank, 227 << 10), 32);
  EXPECT_EQ(LatentTileRows(NumberType::kBF16, 80, 64, 227 << 10), 32);
  EXPECT_LE(LatentSharedBytes(false, kDecodeRows), 99 << 10);
  EXPECT_EQ(ChooseLatentGrid({132, 228 << 10, 227 << 10}).num_ctas, 264);
  EXPECT_EQ(ChooseLatentGrid({108, 164 << 10, 163 << 10}).num_ctas, 108);
}

TEST(LatentWriteTest, LatentWrite_NormsLatentsAndRotates_ForAllTypes) {
  uint64_t seed = 0;
  for (const NumberType dtype : {NumberType::kF32, NumberType::kF16, NumberType::kBF16}) {
    for (const bool fp8 : {false, true}) {
      for (const bool interleaved : {false, true}) {
        EXPECT_EQ(WrongWrites({dtype, fp8, interleaved}, ++seed), "");
        EXPECT_EQ(WrongWrites({dtype, fp8, interleaved, 64, 512}, ++seed), "");
      }
    }
  }
}

}  // namespace
}  // namespace quire::kernels

#include "kernels/cuda/products/skinny_gemm.h"

#include <gtest/gtest.h>

#include <set>

#include "kernels/cuda/skinny_gemm_case.h"
#include "kernels/rms_norm.h"
#include "simt/expect_error.h"
#include "tests/kernels/numbers.h"
#include "tests/support/expect_near.h"

namespace quire::kernels {
namespace {

constexpr SkinnyEpilogue kEpilogues[] = {SkinnyEpilogue::kStore, SkinnyEpilogue::kStoreFloat,
                                         SkinnyEpilogue::kAddResidual, SkinnyEpilogue::kGateMul};
constexpr SkinnyTile kTiles[] = {SkinnyTile::kNarrow, SkinnyTile::kWide};

void ExpectSkinnyEqualsReference(const SkinnyShape& shape, uint64_t seed) {
  SkinnyCase c(shape, seed);
  const std::vector<double> expected = c.Expected();
  simt::WithOptions options({.seed = seed, .switch_chance = seed % 7 == 0 ? 0.05 : 0.0});
  SkinnyGemm(CudaStream{}, c.Params());
  test::ExpectNear(c.Output(), expected, c.Tolerance(), c.Name());
  EXPECT_FALSE(c.WroteBetweenRows()) << c.Name();
}

TEST(SkinnyGemmTest, SkinnyGemm_EqualsReference_ForAllTypesBatchesProloguesAndEpilogues) {
  const int64_t columns[] = {1, 40, 97, 16}, pairs[] = {16, 112, 48}, depths[] = {200, 8, 264, 456, 72};
  uint64_t seed = 0;
  for (const NumberType dtype : {NumberType::kF16, NumberType::kBF16}) {
    for (const int32_t m : {1, 2, 7, 8, 9, 16, 33, 64}) {
      for (const bool norm : {false, true}) {
        for (const SkinnyEpilogue epilogue : kEpilogues) {
          const size_t i = ++seed;
          const int64_t n = epilogue == SkinnyEpilogue::kGateMul ? pairs[i % 3] : columns[i % 4];
          ExpectSkinnyEqualsReference({dtype, m, n, depths[i % 5], norm, epilogue, kTiles[(i / 4 + i / 8) % 2]}, seed);
        }
      }
    }
  }
}

TEST(SkinnyGemmTest, SkinnyGemm_EqualsReference_ForManyDepths) {
  // The depths have fewer chunks of 64 than warps, as many, or one more; end within a chunk or within half a chunk; or
  // take many rounds.
  uint64_t seed = 100;
  for (const int64_t k : {8, 24, 32, 40, 64, 128, 192, 248, 256, 320, 328, 1032, 2304}) {
    for (const int32_t m : {1, 12, 20}) {
      for (const SkinnyTile tile : kTiles) {
        ExpectSkinnyEqualsReference({NumberType::kBF16, m, 19, k, true, SkinnyEpilogue::kStoreFloat, tile}, ++seed);
      }
    }
  }
}

TEST(SkinnyGemmTest, SkinnyGemm_EqualsReference_ForManyWidths) {
  uint64_t seed = 200;
  for (const int64_t n : {1, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 130}) {
    for (const SkinnyTile tile : kTiles) {
      ExpectSkinnyEqualsReference({NumberType::kF16, 3, n, 72, false, SkinnyEpilogue::kAddResidual, tile}, ++seed);
      ExpectSkinnyEqualsReference({NumberType::kF16, 17, n, 72, true, SkinnyEpilogue::kStore, tile}, ++seed);
    }
  }
}

TEST(SkinnyGemmTest, SkinnyGemm_EqualsReference_AroundTheWidthAtWhichTheTileChanges) {
  ExpectSkinnyEqualsReference({.m = 1, .n = 4096 - 5, .k = 16}, 300);
  ExpectSkinnyEqualsReference({.m = 1, .n = 4096, .k = 16}, 301);
}

TEST(SkinnyGemmTest, ARow_IsBitEqual_AloneAndInEveryBatchAndTile) {
  for (const bool norm : {false, true}) {
    SkinnyShape shape{.m = 1, .n = 48, .k = 712, .norm = norm, .epilogue = SkinnyEpilogue::kStoreFloat};
    uint64_t seed = 400;
    const SkinnyCase alone(shape, seed);
    SkinnyGemm(CudaStream{}, alone.Params());
    const std::vector<float> row = alone.Output();
    for (const int32_t m : {1, 2, 8, 9, 31, 64}) {
      for (const SkinnyTile tile : kTiles) {
        shape.m = m, shape.tile = tile;
        SkinnyCase batch(shape, ++seed);
        batch.CopyRow(m - 1, alone, 0);
        SkinnyGemmParams p = batch.Params();
        p.weight = alone.Params().weight, p.norm_weight = alone.Params().norm_weight;
        SkinnyGemm(CudaStream{}, p);
        const std::vector<float> out = batch.Output();
        EXPECT_EQ(std::vector<float>(out.end() - shape.n, out.end()), row) << batch.Name();
      }
    }
  }
}

TEST(SkinnyGemmTest, Results_HaveTheSameBits_InEveryThreadOrder) {
  const SkinnyShape shape{.m = 10, .n = 80, .k = 456, .norm = true, .epilogue = SkinnyEpilogue::kGateMul};
  std::vector<float> first;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const SkinnyCase c(shape, 500);
    simt::WithOptions options({.seed = seed, .switch_chance = 0.1});
    SkinnyGemm(CudaStream{}, c.Params());
    if (seed == 1) first = c.Output();
    EXPECT_EQ(c.Output(), first);
  }
}

/// The fused norm rounds x * weight, and the separate norm rounds x / rms * weight. Both results are equally far from
/// the exact one.
TEST(SkinnyGemmTest, FusedNorm_IsNearTheNormFollowedByTheProduct) {
  for (const NumberType dtype : {NumberType::kF16, NumberType::kBF16}) {
    const SkinnyCase fused({.dtype = dtype, .m = 5, .n = 33, .k = 456, .norm = true}, 600);
    SkinnyGemmParams p = fused.Params();
    SkinnyGemm(CudaStream{}, p);
    const std::vector<float> out = fused.Output();

    const simt::DeviceBuffer<uint16_t> rows(p.m * p.k), normed(p.m * p.k);
    for (int64_t i = 0; i < rows.size(); ++i) {
      rows[i] = static_cast<const uint16_t*>(p.x)[i / p.k * p.x_stride + i % p.k];
    }
    RmsNorm(CudaStream{}, {dtype, rows.data(), nullptr, p.norm_weight, normed.data(), p.m, p.k, p.epsilon});
    p.x = normed.data(), p.x_stride = p.k, p.norm_weight = nullptr;
    SkinnyGemm(CudaStream{}, p);
    const std::vector<float> floats = fused.Output();
    const std::vector<double> apart(floats.begin(), floats.end());
    // The error of a sum of 456 rounded terms is about sqrt(456) units.
    const double unit = dtype == NumberType::kF16 ? 0x1p-11 : 0x1p-8;
    test::ExpectNear(out, apart, 25 * unit, fused.Name());
  }
}

TEST(SkinnyGemmTest, RowOffsets_MayExceed32Bits) {
  // The third row begins after element 2^31. Untouched pages in between take no memory.
  ExpectSkinnyEqualsReference({.m = 3, .n = 16, .k = 72, .x_gap = 1'100'000'000, .out_gap = 1'100'000'000}, 700);
}

TEST(SkinnyGemmTest, SkinnyGateUpRow_InterleavesGatesAndUps_OverAllRows) {
  std::set<int64_t> rows;
  for (int64_t column = 0; column < 24; ++column) {
    rows.insert(SkinnyGateUpRow(column, false));
    rows.insert(SkinnyGateUpRow(column, true));
    EXPECT_EQ(SkinnyGateUpRow(column, true), SkinnyGateUpRow(column, false) + 8);
  }
  EXPECT_EQ(rows.size(), 48u);
  EXPECT_EQ(*rows.begin(), 0);
  EXPECT_EQ(*rows.rbegin(), 47);
}

TEST(SkinnyGemmTest, SkinnyGemmSupports_IsTrue_OnlyFor16BitTypesAndUpTo64Rows) {
  EXPECT_TRUE(SkinnyGemmSupports(NumberType::kBF16, 1, 1, 8));
  EXPECT_TRUE(SkinnyGemmSupports(NumberType::kF16, 64, 128'256, 4096));
  EXPECT_FALSE(SkinnyGemmSupports(NumberType::kF32, 1, 16, 64));
  EXPECT_FALSE(SkinnyGemmSupports(NumberType::kBF16, 65, 16, 64));
  EXPECT_FALSE(SkinnyGemmSupports(NumberType::kBF16, 0, 16, 64));
  EXPECT_FALSE(SkinnyGemmSupports(NumberType::kBF16, 1, 0, 64));
  EXPECT_FALSE(SkinnyGemmSupports(NumberType::kBF16, 1, 16, 63));
  EXPECT_FALSE(SkinnyGemmSupports(NumberType::kBF16, 1, 16, 0));
}

TEST(SkinnyGemmTest, Emulator_FindsAWeightWithTooFewRows) {
  const SkinnyCase c({.m = 1, .n = 16, .k = 64}, 800);
  const simt::DeviceBuffer<uint16_t> weight(15 * 64);
  SkinnyGemmParams p = c.Params();
  p.weight = weight.data();
  simt::ExpectError([&] { SkinnyGemm(CudaStream{}, p); }, "global access out of bounds");
}

}  // namespace
}  // namespace quire::kernels

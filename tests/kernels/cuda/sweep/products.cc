// Sweeps products of few rows, with plain and quantised weights and with experts: random sizes are compared with fp64.
#include <gtest/gtest.h>

#include "kernels/cuda/experts_case.h"
#include "kernels/cuda/quantized_gemm_case.h"
#include "kernels/cuda/skinny_gemm_case.h"
#include "kernels/cuda/sweep/sweep.h"
#include "simt/expect_error.h"
#include "tests/kernels/numbers.h"
#include "tests/support/expect_near.h"

namespace quire::kernels {
namespace {

NumberType AnyHalf(test::Random& random) { return OneOf(random, {NumberType::kF16, NumberType::kBF16}); }

TEST(SkinnyGemmSweep, SkinnyGemm_EqualsReference_ForRandomSizes) {
  Sweep("products of few rows", 100, [](test::Random& random, uint64_t seed) -> std::string {
    SkinnyShape s{.dtype = AnyHalf(random), .m = AnyLength(random, 1, kSkinnyMaxRows)};
    s.epilogue = OneOf(random, {SkinnyEpilogue::kStore, SkinnyEpilogue::kStoreFloat, SkinnyEpilogue::kAddResidual,
                                SkinnyEpilogue::kGateMul});
    s.n = s.epilogue == SkinnyEpilogue::kGateMul ? 16 * random.Between(1, 9) : AnyLength(random, 1, 150);
    s.k = 8 * AnyLength(random, 1, 200);
    s.norm = random.Below(2) == 0;
    s.tile = OneOf(random, {SkinnyTile::kByShape, SkinnyTile::kNarrow, SkinnyTile::kWide});
    s.x_gap = 8 * random.Below(3);
    s.out_gap = random.Below(5);
    const SkinnyCase c(s, seed);
    const std::vector<double> expected = c.Expected();
    const simt::WithOptions options({.seed = seed, .switch_chance = seed % 7 == 0 ? 0.05 : 0.0});
    SkinnyGemm(CudaStream{}, c.Params());
    if (c.WroteBetweenRows()) return c.Name() + ": wrote between the rows";
    const std::string far = test::FirstFar(c.Output(), expected, c.Tolerance());
    return far.empty() ? "" : c.Name() + ": " + far;
  });
}

/// Expands some rows of the weight. Describes the first wrong number; empty if there is none.
std::string WrongInExpanded(const QuantizedCase& c, test::Random& random) {
  const QuantizedGemmParams p = c.Params();
  const int64_t first = random.Below(p.weight.n), rows = random.Between(1, p.weight.n - first), k = p.weight.k;
  const simt::DeviceBuffer<uint16_t> out(rows * k);
  ExpandQuantized(CudaStream{}, {p.dtype, p.weight, first, rows, out.data()});
  for (int64_t i = 0; i < out.size(); ++i) {
    if (reference::ReadNumber(out.data(), p.dtype, i) == c.Weight(first + i / k, i % k)) continue;
    return c.Name() + ": number " + std::to_string(i % k) + " of row " + std::to_string(first + i / k) + ", expanded";
  }
  return "";
}

TEST(QuantizedGemmSweep, QuantizedGemm_EqualsReference_ForRandomSizes) {
  Sweep("products with quantised weights", 150, [](test::Random& random, uint64_t seed) -> std::string {
    QuantizedShape s{.dtype = AnyHalf(random), .type = AnyQuantized(random)};
    s.m = AnyLength(random, 1, kQuantizedMaxRows);
    s.n = AnyLength(random, 1, 120);
    s.k = 32 * AnyLength(random, 1, 50);
    s.scale = OneOf(random, {1.0f, 0.25f});
    s.x_gap = 8 * random.Below(3);
    s.out_gap = random.Below(5);
    const QuantizedCase c(s, seed);
    const simt::WithOptions options({.seed = seed, .switch_chance = seed % 7 == 0 ? 0.05 : 0.0});
    QuantizedGemm(CudaStream{}, c.Params());
    if (c.WroteBetweenRows()) return c.Name() + ": wrote between the rows";
    const std::string far = test::FirstFar(c.Output(), c.Expected(), c.Tolerance());
    return far.empty() ? WrongInExpanded(c, random) : c.Name() + ": " + far;
  });
}

TEST(ExpertsSweep, ExpertMatmul_EqualsReference_ForRandomSizes) {
  Sweep("products of experts", 40, [](test::Random& random, uint64_t seed) {
    ExpertsShape s{.experts = random.Between(1, 9)};
    s.per_token = random.Between(1, std::min<int64_t>(s.experts, 4));
    s.tokens = AnyLength(random, 1, 60);
    s.gathers = random.Below(2) == 0;
    s.biased = random.Below(2) == 0;
    s.seed = seed;
    const simt::WithOptions options({.seed = seed});
    if (random.Below(3) > 0) {
      s.n = 16 * random.Between(1, 7), s.k = 32 * AnyLength(random, 1, 12);
      return WrongInQuantizedExperts(AnyHalf(random), AnyQuantized(random), s);
    }
    s.n = random.Between(1, 100), s.k = 8 * AnyLength(random, 1, 40);
    return WrongInExperts(OneOf(random, {NumberType::kF32, NumberType::kF16, NumberType::kBF16}), s);
  });
}

}  // namespace
}  // namespace quire::kernels

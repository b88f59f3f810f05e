// Plants bugs in the skinny GEMM with skinny_gemm_bugs.py. The emulator or the comparison with the reference must find
// each of them.
#include <gtest/gtest.h>

#include "kernels/cuda/expect_bugs_found.h"
#include "kernels/cuda/skinny_gemm_case.h"
#include "planted_bugs.h"
#include "simt/expect_error.h"
#include "tests/support/expect_near.h"

namespace quire::kernels {
namespace {

std::vector<SkinnyShape> Shapes() {
  return {
      {.m = 3, .n = 19, .k = 264, .norm = true, .epilogue = SkinnyEpilogue::kStoreFloat},
      {.m = 9, .n = 48, .k = 456, .norm = true, .epilogue = SkinnyEpilogue::kGateMul, .tile = SkinnyTile::kWide},
      {.m = 9, .n = 40, .k = 1160, .epilogue = SkinnyEpilogue::kAddResidual, .tile = SkinnyTile::kWide},
      {.m = 5, .n = 8, .k = 72, .x_gap = 1'100'000'000, .out_gap = 1'100'000'000},
  };
}

/// Describes the first wrong launch; empty if there is none.
std::string Hunt() {
  uint64_t seed = 1;
  for (const SkinnyShape& shape : Shapes()) {
    const SkinnyCase c(shape, ++seed);
    const std::vector<double> expected = c.Expected();
    simt::WithOptions options({.seed = seed});
    try {
      SkinnyGemm(CudaStream{}, c.Params());
    } catch (const simt::SimtError& error) {
      return error.what();
    }
    const std::string far = test::FirstFar(c.Output(), expected, c.Tolerance());
    if (!far.empty()) return c.Name() + ": " + far;
    if (c.WroteBetweenRows()) return c.Name() + ": wrote between the rows of the output";
  }
  return "";
}

TEST(SkinnyGemmBugsTest, Hunt_FindsEveryPlantedBug_AndNothingWithoutBugs) { ExpectEveryBugIsFound(kPlantedBugs, Hunt); }

}  // namespace
}  // namespace quire::kernels

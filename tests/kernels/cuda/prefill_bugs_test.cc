// Plants bugs in prefill attention with prefill_bugs.py. The emulator or the comparison with the reference must find
// each of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "kernels/cuda/expect_bugs_found.h"
#include "kernels/cuda/prefill/prefill_attention_launch.cuh"
#include "kernels/cuda/prefill/prefill_attention_scalar.cuh"
#include "kernels/cuda/prefill_case.h"
#include "kernels/cuda/sweep/random_steps.h"
#include "planted_bugs.h"
#include "simt/expect_error.h"

namespace quire::kernels {

// prefill_attention.cu launches its kernels through these functions. This test defines them with a few instantiations
// only, which are enough to find every planted bug.
void PrefillF32(const CudaStream& stream, const PrefillLaunch& launch) {
  LaunchPrefill<PrefillAttentionScalarKernel<float, float, 256>>(stream, launch);
}
void PrefillF16(const CudaStream& stream, const PrefillLaunch& launch) {
  LaunchPrefill<PrefillAttentionKernel<simt::Half, simt::Fp8E4M3, 256>>(stream, launch);
}
void PrefillBF16(const CudaStream& stream, const PrefillLaunch& launch) {
  LaunchPrefillInTiles<simt::BFloat16, simt::BFloat16, 64>(stream, launch);  // kernels with and without warpgroups
}

namespace {

std::vector<PrefillShape> Shapes() {
  return {
      {.head_start = {0, 3, 4}, .chunks = {{3, 70}, {2, 0}, {60, 60}}, .resident_table = true},
      {.head_start = {0, 2}, .chunks = {{1, 180}, {70, 150}}, .window = 70},
      {.dtype = NumberType::kF16,
       .fp8_cache = true,
       .head_size = 256,
       .block_size = 64,
       .chunks = {{9, 75}},
       .window = 40},
      {.chunks = {{7, 75}}, .soft_cap = 1.5f, .alibi = true, .scale = 0.7f},
      {.head_start = {0, 3, 4},
       .chunks = {{2, 30}, {50, 1500}},
       .window = 1400,
       .sinks = true,
       .first_sink = 8,
       .split = {.num_ctas = 10}},
      {.head_start = {0, 3, 4}, .chunks = {{100, 1200}}, .split = {.num_ctas = 20}},  // a cut group
      {.chunks = {{2, 20}}, .first_block = 1'100'000},  // block offsets exceed 2^31 elements
      {.head_start = {0, 2}, .chunks = {{3, 3}, {70, 420}}, .in_groups = true},
      {.head_start = {0, 1}, .chunks = {{90, 300}}, .window = 30, .in_groups = true},
      {.dtype = NumberType::kF32, .chunks = {{20, 75}}, .window = 40},
      {.dtype = NumberType::kF32, .chunks = {{2, 20}}, .first_block = 1'100'000},
      {.head_start = {0, 2, 3}, .chunks = {{1300, 1300}}, .window = 400, .split = {.num_ctas = 64}},  // empty parts
      {.head_start = {0, 2, 3}, .chunks = {{1300, 1300}}, .window = 400, .split = {.num_ctas = 64}, .in_groups = true},
  };
}

/// Describes the first wrong launch; empty if there is none.
std::string Hunt() {
  uint64_t seed = 1;
  for (const PrefillShape& shape : Shapes()) {
    PrefillCase c(shape, ++seed);
    simt::WithOptions options({.seed = seed});
    try {
      PrefillAttention(CudaStream{}, c.Params());
    } catch (const simt::SimtError& error) {
      return error.what();
    }
    if (std::string wrong = c.Wrong(); !wrong.empty()) return wrong;
  }
  return "";
}

TEST(PrefillBugsTest, Hunt_FindsEveryPlantedBug_AndNothingWithoutBugs) { ExpectEveryBugIsFound(kPlantedBugs, Hunt); }

/// Tries random steps, as the sweep does, of the types that this test instantiates. Returns the number of the first
/// wrong step, counted from 1, or -1 if none of `most` is wrong.
int StepsUntilWrong(int most) {
  for (int step = 1; step <= most; ++step) {
    const auto seed = static_cast<uint64_t>(step);
    test::Random random(seed);
    PrefillShape shape = RandomPrefill(random);
    shape.dtype = NumberType::kBF16;
    shape.fp8_cache = false;
    shape.head_size = 64;
    const PrefillCase c(shape, seed);
    const simt::WithOptions options({.seed = seed});
    try {
      PrefillAttention(CudaStream{}, c.Params());
    } catch (const simt::SimtError&) {
      return step;
    }
    if (!c.Wrong().empty()) return step;
  }
  return -1;
}

TEST(PrefillBugsTest, RandomSteps_FindBugsOfSplitTilesAndGroups) {
  for (const std::string_view bug :
       {"a tile's last part ends with the largest group's rows", "neighbouring parts share positions",
        "parts of all kv heads go to one place", "the last part is left out", "a row's head counts within its group",
        "the window is one too wide"}) {
    const auto* const at = std::ranges::find(kPlantedBugs, bug);
    ASSERT_NE(at, std::end(kPlantedBugs)) << bug;
    simt::ActiveBug() = static_cast<int>(at - kPlantedBugs) + 1;
    const int steps = StepsUntilWrong(40);
    EXPECT_GT(steps, 0) << "missed: " << bug;
    std::printf("%s: found by step %d\n", bug.data(), steps);
  }
  simt::ActiveBug() = 0;
}

}  // namespace
}  // namespace quire::kernels

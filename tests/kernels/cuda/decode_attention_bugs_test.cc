// Runs decode attention with the bugs of decode_attention_bugs.py. The emulator or the comparison with the reference
// must find each.
#include <gtest/gtest.h>

#include "kernels/cuda/decode/decode_attention_launch.cuh"
#include "kernels/cuda/decode_attention_run.h"
#include "kernels/cuda/expect_bugs_found.h"
#include "planted_bugs.h"
#include "simt/expect_error.h"

namespace quire::kernels {

// decode_attention.cu launches its kernels through these functions. This test defines them with a few instantiations
// only, which are enough to find every planted bug.
void DecodeAttentionF16(const CudaStream& stream, const DecodeAttentionLaunch& launch) {
  LaunchDecodeAttention<simt::Half, simt::Fp8E4M3, 80>(stream, launch);
}
void DecodeAttentionBF16(const CudaStream& stream, const DecodeAttentionLaunch& launch) {
  LaunchDecodeAttention<simt::BFloat16, simt::BFloat16, 64>(stream, launch);
}

namespace {

struct CutCase {
  DecodeShape shape;
  DecodeCut cut;
};
std::vector<CutCase> CutCases() {
  const DecodeShape fp8{NumberType::kF16, true, 80, 64, {0, 0, 1}, {65, 130}};
  DecodeShape fp8_short = fp8;
  fp8_short.block_size = 8, fp8_short.window = 70;
  return {
      {{.context_len = {1, 0, 40, 130}}, {.num_ctas = 2, .table_rows = true}},
      {{.context_len = {70, 300}, .window = 37, .soft_cap = 1.5f, .alibi = true}, {.num_ctas = 3, .min_units = 1}},
      {{.block_size = 64, .kv_head_of = std::vector<int32_t>(9), .context_len = {500}},
       {.num_ctas = 3, .min_units = 1, .padding = 1}},
      {{.context_len = {20}, .first_block = 1'100'000}, {}},  // block offsets exceed 2^31 numbers
      {fp8, {.num_ctas = 4, .min_units = 1, .stages = 2}},
      {fp8_short, {.num_ctas = 2, .stages = 2}},
  };
}

/// Describes the error of the first wrong launch; empty if there is none.
std::string Hunt() {
  uint64_t seed = 100;
  for (const CutCase& c : CutCases()) {
    const DecodeAttentionRun run(c.shape, ++seed, c.cut);
    simt::WithOptions options({.seed = seed});
    try {
      DecodeAttention(CudaStream{}, run.Params());
    } catch (const simt::SimtError& error) {
      return error.what();
    }
    if (std::string wrong = run.of().FirstWrong(run.Output()); !wrong.empty()) return wrong;
  }
  return "";
}

TEST(DecodeAttentionBugsTest, Hunt_FindsEveryPlantedBug_AndNothingWithoutBugs) {
  ExpectEveryBugIsFound(kPlantedBugs, Hunt);
}

}  // namespace
}  // namespace quire::kernels

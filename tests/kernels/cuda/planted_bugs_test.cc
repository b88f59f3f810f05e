// Plants bugs in the baseline decode kernels with plant_bugs.py. The emulator or the comparison with the reference must
// find each of them; otherwise neither can be trusted.
#include "planted_bugs.h"

#include <gtest/gtest.h>

#include "kernels/cuda/decode_case.h"
#include "kernels/cuda/expect_bugs_found.h"
#include "kernels/cuda/paged/paged_decode_launch.cuh"
#include "simt/expect_error.h"

namespace quire::kernels {

// paged_decode.cu launches its kernels through these functions. This test defines them with a few instantiations only,
// which are enough to find every planted bug.
void DecodeF32(const CudaStream& stream, const DecodeLaunch& launch) {
  LaunchDecode<float, float, 64, 16>(stream, launch);
}
void DecodeF16(const CudaStream&, const DecodeLaunch&) { FAIL() << "no case has this type"; }
void DecodeBF16(const CudaStream& stream, const DecodeLaunch& launch) {
  LaunchDecode<simt::BFloat16, simt::Fp8E4M3, 80, 64>(stream, launch);
}

namespace {

std::vector<DecodeShape> Shapes() {
  return {
      {.dtype = NumberType::kF32, .context_len = {1, 0, 40, 63}},
      {.dtype = NumberType::kF32, .context_len = {70, 600}, .window = 37, .soft_cap = 1.5f, .alibi = true},
      {.dtype = NumberType::kF32, .kv_head_of = {0, 0}, .context_len = {700, 1300}, .window = 600},
      {.dtype = NumberType::kF32, .context_len = {20}, .first_block = 1'100'000},  // block offsets exceed 2^31 floats
      {.dtype = NumberType::kF32, .context_len = {1, 40, 700}, .sinks = true, .resident_table = true},
      {.fp8_cache = true, .head_size = 80, .block_size = 64, .context_len = {65, 530}},
  };
}

/// Describes the first wrong launch; empty if there is none.
std::string Hunt() {
  uint64_t seed = 1;
  for (const DecodeShape& shape : Shapes()) {
    for (const auto op : {PagedDecodeV1, PagedDecodeV2}) {
      DecodeCase c(shape, ++seed);
      simt::WithOptions options({.seed = seed});
      try {
        op(CudaStream{}, c.Params());
      } catch (const simt::SimtError& error) {
        return error.what();
      }
      if (std::string wrong = c.FirstWrong(c.Output()); !wrong.empty()) return wrong;
    }
  }
  return "";
}

TEST(PlantedBugsTest, Hunt_FindsEveryPlantedBug_AndNothingWithoutBugs) { ExpectEveryBugIsFound(kPlantedBugs, Hunt); }

}  // namespace
}  // namespace quire::kernels

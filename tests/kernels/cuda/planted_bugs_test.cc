// The attention kernels with bugs planted by plant_bugs.py: the emulator or the comparison with the reference must find
// each of them, or neither can be trusted.
#include "planted_bugs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <iterator>

#include "kernels/cuda/decode_attention_launch.cuh"
#include "kernels/cuda/decode_attention_run.h"
#include "kernels/cuda/paged_decode_launch.cuh"
#include "simt/active_bug.h"
#include "simt/expect_error.h"

namespace quire::kernels {

// paged_decode.cu and decode_attention.cu launch through these; few instantiations are enough to hunt in.
void DecodeF32(const CudaStream& stream, const DecodeLaunch& launch) {
  LaunchDecode<float, float, 64, 16>(stream, launch);
}
void DecodeF16(const CudaStream&, const DecodeLaunch&) { FAIL() << "no case has this type"; }
void DecodeBF16(const CudaStream& stream, const DecodeLaunch& launch) {
  LaunchDecode<simt::BFloat16, simt::Fp8E4M3, 80, 64>(stream, launch);
}
void DecodeAttentionF16(const CudaStream& stream, const DecodeAttentionLaunch& launch) {
  LaunchDecodeAttention<simt::Half, simt::Fp8E4M3, 80>(stream, launch);
}
void DecodeAttentionBF16(const CudaStream& stream, const DecodeAttentionLaunch& launch) {
  LaunchDecodeAttention<simt::BFloat16, simt::BFloat16, 64>(stream, launch);
}

namespace {

std::vector<DecodeShape> Shapes() {
  return {
      {.dtype = DType::kF32, .context_len = {1, 0, 40, 63}},
      {.dtype = DType::kF32, .context_len = {70, 600}, .window = 37, .soft_cap = 1.5f, .alibi = true},
      {.dtype = DType::kF32, .kv_head_of = {0, 0}, .context_len = {700, 1300}, .window = 600},
      {.dtype = DType::kF32, .context_len = {20}, .first_block = 1'100'000},  // offsets of 2,048 floats a block
      {.cache = CacheType::kFp8E4M3, .head_size = 80, .block_size = 64, .context_len = {65, 530}},
  };
}

struct CutCase {
  DecodeShape shape;
  DecodeCut cut;
};
std::vector<CutCase> CutCases() {
  const DecodeShape fp8{DType::kF16, CacheType::kFp8E4M3, 80, 64, {0, 0, 1}, {65, 130}};
  DecodeShape fp8_short = fp8;
  fp8_short.block_size = 8, fp8_short.window = 70;
  return {
      {{.context_len = {1, 0, 40, 130}}, {.num_ctas = 2, .table_rows = true}},
      {{.context_len = {70, 300}, .window = 37, .soft_cap = 1.5f, .alibi = true}, {.num_ctas = 3, .min_units = 1}},
      {{.block_size = 64, .kv_head_of = {0, 0}, .context_len = {500}}, {.num_ctas = 3, .min_units = 1, .padding = 1}},
      {{.context_len = {20}, .first_block = 1'100'000}, {}},  // offsets of 2,048 numbers a block
      {fp8, {.num_ctas = 4, .min_units = 1, .stages = 2}},
      {fp8_short, {.num_ctas = 2, .stages = 2}},
  };
}

/// What is wrong with the case's output, or with its launch; empty if all is well.
template <class Case, class Run>
std::string Try(const Case& output_of, const DecodeCase& c, Run run) {
  try {
    run();
  } catch (const simt::SimtError& error) {
    return error.what();
  }
  const std::vector<float> out = output_of.Output();
  const std::vector<double> expected = c.Expected();
  for (size_t i = 0; i < out.size(); ++i) {
    if (!(std::abs(out[i] - expected[i]) <= c.Tolerance() * std::max(1.0, std::abs(expected[i])))) {
      return c.Name() + ": element " + std::to_string(i) + " is " + std::to_string(out[i]) + " instead of " +
             std::to_string(expected[i]);
    }
  }
  return "";
}

std::string HuntInBaselines() {
  uint64_t seed = 1;
  for (const DecodeShape& shape : Shapes()) {
    for (const auto op : {PagedDecodeV1, PagedDecodeV2}) {
      const DecodeCase c(shape, ++seed);
      simt::WithOptions options({.seed = seed});
      if (std::string found = Try(c, c, [&] { op(CudaStream{}, c.Params()); }); !found.empty()) return found;
    }
  }
  return "";
}

std::string HuntInDecodeAttention() {
  uint64_t seed = 100;
  for (const CutCase& c : CutCases()) {
    const DecodeAttentionRun run(c.shape, ++seed, c.cut);
    simt::WithOptions options({.seed = seed});
    if (std::string found = Try(run, run.of(), [&] { DecodeAttention(CudaStream{}, run.Params()); }); !found.empty()) {
      return found;
    }
  }
  return "";
}

TEST(PlantedBugsTest, EveryOneIsFoundAndWithoutThemAllIsWell) {
  simt::ActiveBug() = 0;
  EXPECT_EQ(HuntInBaselines(), "");
  EXPECT_EQ(HuntInDecodeAttention(), "");
  for (const PlantedBug& bug : kPlantedBugs) {
    ++simt::ActiveBug();
    const std::string found = bug.in_decode_attention ? HuntInDecodeAttention() : HuntInBaselines();
    EXPECT_NE(found, "") << "missed: " << bug.what;
    std::printf("%s\n    %s\n", bug.what, found.c_str());
  }
  simt::ActiveBug() = 0;
  EXPECT_EQ(HuntInBaselines(), "");
  EXPECT_EQ(HuntInDecodeAttention(), "");
}

}  // namespace
}  // namespace quire::kernels

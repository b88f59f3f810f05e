// Sweeps attention over the paged cache: random steps, as an engine plans them, are compared with attention in fp64.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cuda/decode_attention_run.h"
#include "kernels/cuda/sweep/random_steps.h"
#include "kernels/cuda/sweep/sweep.h"
#include "simt/expect_error.h"

namespace quire::kernels {
namespace {

TEST(PrefillSweep, PrefillAttention_EqualsReference_ForRandomSteps) {
  int64_t merges = 0;
  Sweep("prefill attention", 12, [&](test::Random& random, uint64_t seed) {
    const PrefillCase c(RandomPrefill(random), seed);
    const simt::WithOptions options({.seed = seed, .switch_chance = seed % 7 == 0 ? 0.01 : 0.0});
    merges += c.num_merges();
    PrefillAttention(CudaStream{}, c.Params());
    return c.Wrong();
  });
  std::printf("%lld split tiles\n", static_cast<long long>(merges));
}

TEST(DecodeSweep, DecodeAttention_EqualsReference_ForRandomSteps) {
  Sweep("decode attention", 16, [](test::Random& random, uint64_t seed) -> std::string {
    const DecodeCut cut{.num_ctas = AnyLength(random, 1, 40),
                        .min_units = OneOf(random, {1, 2, kDecodeMinUnits}),
                        .stages = static_cast<int32_t>(random.Between(2, 4)),
                        .padding = static_cast<int32_t>(random.Below(4)),
                        .table_rows = random.Below(2) == 0};
    const DecodeAttentionRun run(RandomDecode(random, true), seed, cut);
    const simt::WithOptions options({.seed = seed, .switch_chance = seed % 7 == 0 ? 0.01 : 0.0});
    DecodeAttention(CudaStream{}, run.Params());
    const std::vector<float> padding = run.Padding();
    if (std::ranges::any_of(padding, [](float x) { return x != 0; })) return "rows that pad the batch are not 0";
    return run.of().FirstWrong(run.Output());
  });
}

TEST(PagedDecodeSweep, PagedDecode_EqualsReference_ForRandomSteps) {
  Sweep("decode attention, v1 and v2", 12, [](test::Random& random, uint64_t seed) {
    const DecodeCase c(RandomDecode(random, false), seed);
    const simt::WithOptions options({.seed = seed});
    seed % 2 == 0 ? PagedDecodeV1(CudaStream{}, c.Params()) : PagedDecodeV2(CudaStream{}, c.Params());
    return c.FirstWrong(c.Output());
  });
}

}  // namespace
}  // namespace quire::kernels

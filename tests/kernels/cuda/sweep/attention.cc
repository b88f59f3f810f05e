// Sweeps attention over the paged cache: random steps, as an engine plans them, are compared with attention in fp64.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cuda/decode_attention_run.h"
#include "kernels/cuda/latent_case.h"
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

/// Returns a random step of latent attention with heads of the published sizes, or of smaller ones without tensor
/// cores.
LatentShape RandomLatents(test::Random& random) {
  LatentShape s{.dtype = OneOf(random, {NumberType::kBF16, NumberType::kF16, NumberType::kF32})};
  s.fp8_cache = random.Below(3) == 0;
  s.decodes = s.dtype != NumberType::kF32 && random.Below(2) == 0;
  if (s.dtype == NumberType::kF32) {
    s.rotated_dim = OneOf(random, {16, 32, 64});
    s.rank = 16 * AnyLength(random, 1, 12);
  }
  s.heads = AnyLength(random, 1, 40);
  s.block_size = OneOf(random, {8, 16, 32, 64});
  s.tile_rows = OneOf(random, {16, 64});
  s.num_ctas = static_cast<int32_t>(random.Between(1, 8));
  s.resident_table = random.Below(2) == 0;
  s.chunks.clear();
  int64_t pairs = int64_t{9'000} * kLatentHeadSize / s.head_size() / s.heads;  // of a query and a key, for each head
  for (int64_t left = random.Between(1, 4); left > 0; --left) {
    const int32_t queries =
        s.decodes ? 1 : AnyLength(random, 1, static_cast<int32_t>(std::max<int64_t>(pairs / 40, 1)));
    const auto most = static_cast<int32_t>(std::clamp<int64_t>(pairs / queries - queries, 1, 2000));
    const bool pads = random.Below(8) == 0;
    s.chunks.push_back({queries, pads ? 0 : queries + AnyLength(random, 0, most)});
    pairs = std::max<int64_t>(pairs - int64_t{queries} * s.chunks.back().context, 0);
  }
  return s;
}

TEST(LatentSweep, LatentAttention_EqualsReference_ForRandomSteps) {
  Sweep("latent attention", 12, [](test::Random& random, uint64_t seed) {
    const LatentCase c(RandomLatents(random), seed);
    const simt::WithOptions options({.seed = seed, .switch_chance = seed % 7 == 0 ? 0.01 : 0.0});
    c.Run();
    return c.Wrong();
  });
}

}  // namespace
}  // namespace quire::kernels

// Compares sampling on the device with kernels/cpu/sampling.cc, in the emulator.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cuda/sampling_case.h"
#include "simt/expect_error.h"
#include "tests/support/sampling_effects.h"

namespace quire::kernels {
namespace {

std::string Describe(const SamplingRow& row) {
  return "temperature " + std::to_string(row.params.temperature) + ", top-k " + std::to_string(row.params.top_k) +
         ", top-p " + std::to_string(row.params.top_p) + ", min-p " + std::to_string(row.params.min_p);
}

/// Expects that the results agree with the CPU's. Returns the number of near misses (Difference).
int ExpectLikeCpu(const std::vector<SamplingRow>& batch, const Drawn& drawn, const std::string& what) {
  int near_misses = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    EXPECT_EQ(Difference(batch[i], drawn.tokens[i], near_misses), "")
        << what << ", vocabulary " << batch[i].logits.size() << ", row " << i << ", " << Describe(batch[i]);
  }
  return near_misses;
}

std::vector<SamplingRow> RandomBatch(test::Random& random, int64_t vocab, int rows) {
  std::vector<SamplingRow> batch;
  for (int i = 0; i < rows; ++i) batch.push_back(RandomRow(random, vocab));
  return batch;
}

TEST(SamplingTest, SampleRows_DrawsTheSameTokens_AsTheCpu) {
  int near_misses = 0, rows = 0;
  for (const int64_t vocab : {1, 2, 3, 31, 255, 256, 257, 1000, 2999, 9001}) {
    for (uint64_t seed = 0; seed < 3; ++seed) {
      test::Random random(seed * 100'000 + static_cast<uint64_t>(vocab));
      simt::WithOptions options({.seed = seed, .switch_chance = seed == 2 ? 0.02 : 0.0});
      const auto batch = RandomBatch(random, vocab, vocab > 3000 ? 6 : 20);
      near_misses += ExpectLikeCpu(batch, DrawWhole(batch), "whole");
      rows += static_cast<int>(batch.size());
    }
  }
  EXPECT_LE(near_misses, rows / 500);
}

TEST(SamplingTest, ShardedSampling_GivesTheSameTokens_AsTheCpu) {
  int near_misses = 0, rows = 0, in_shard = 0, whole_row = 0;
  for (const int64_t vocab : {1, 2, 40, 257, 1000, 2999}) {
    for (const int shards : {1, 2, 3}) {
      for (const int candidates : {0, 7, 128}) {
        test::Random random(static_cast<uint64_t>(vocab * 1000 + shards * 10 + candidates));
        simt::WithOptions options({.seed = random.Bits()});
        const auto batch = RandomBatch(random, vocab, 5);
        const Drawn drawn = DrawSharded(batch, RandomShards(random, vocab, shards), candidates);
        near_misses += ExpectLikeCpu(batch, drawn, std::to_string(shards) + " shards");
        rows += static_cast<int>(batch.size()), in_shard += drawn.in_shard, whole_row += drawn.whole_row;
      }
    }
  }
  EXPECT_GT(in_shard, 10);  // both fallbacks were taken
  EXPECT_GT(whole_row, 10);
  EXPECT_LT(in_shard + whole_row, rows * 3 / 4);
  EXPECT_LE(near_misses, rows / 250);
}

SamplingRow RowOf(const test::SamplingEffect& effect, uint64_t seed) {
  const SamplingSpec& spec = effect.spec;
  SamplingRow row{.logits = effect.Row(),
                  .params = {spec.temperature, spec.top_k, spec.top_p, spec.min_p},
                  .key = {seed, spec.choice, effect.prompt.size() + effect.generated.size()},
                  .penalties = {spec.repetition_penalty, spec.frequency_penalty, spec.presence_penalty},
                  .bias = spec.logit_bias};
  for (const TokenId token : effect.prompt) row.seen[token];
  for (const TokenId token : effect.generated) ++row.seen[token];
  if (std::ssize(effect.generated) < spec.min_tokens) row.banned = spec.banned_until_min;
  return row;
}

TEST(SamplingTest, EverySetting_LimitsTheDrawnTokens_InWholeRowsAndInShards) {
  for (const test::SamplingEffect& effect : test::SamplingEffects()) {
    std::vector<SamplingRow> batch;
    for (uint64_t seed = 0; seed < test::kEffectSeeds; ++seed) batch.push_back(RowOf(effect, seed));
    for (const Drawn& drawn : {DrawWhole(batch), DrawSharded(batch, {17, 0, test::kEffectVocab - 17}, 16)}) {
      std::set<TokenId> tokens;
      for (const DrawnToken& token : drawn.tokens) tokens.insert(token.token);
      EXPECT_EQ(tokens, effect.drawn) << effect.what;
    }
  }
}

/// Returns `count` rows in which tokens are sampled from the same logits at successive positions.
std::vector<SamplingRow> Positions(SamplingRow row, uint64_t seed, int count) {
  std::vector<SamplingRow> batch;
  row.key = {seed, 3, 0};
  for (int i = 0; i < count; ++i) {
    ++row.key.position;
    batch.push_back(row);
  }
  return batch;
}

SamplingRow PlainRow(test::Random& random, int64_t vocab, float scale) {
  SamplingRow row;
  row.logits = random.Floats(vocab);
  for (float& x : row.logits) x *= scale;
  return row;
}

TEST(SamplingTest, Draws_EqualTheDrawsOfTheCpu_InThousandsOfRows) {
  test::Random random(4);
  int near_misses = 0, rows = 0;
  const auto expect = [&](const SamplingRow& row, int count, const std::string& what) {
    const auto batch = Positions(row, random.Bits(), count);
    near_misses += ExpectLikeCpu(batch, DrawWhole(batch), what);
    rows += count;
  };
  for (const int64_t vocab : {7, 100, 301, 3000}) {
    SamplingRow row = PlainRow(random, vocab, 4);
    expect(row, 300, "plain");
    row.params = {.temperature = 0.7f, .top_k = 50, .top_p = 0.9f, .min_p = 0.001f};
    expect(row, 40, "restricted");
  }
  EXPECT_LE(near_misses, rows / 1000);  // boundaries between tokens move by about 1e-7 each
}

/// Returns Pearson's statistic of sampled tokens against the exact probabilities of the tokens with a weight above 0,
/// in standard deviations above its mean.
double ChiSquareScore(const std::vector<double>& weights, const std::vector<DrawnToken>& drawn) {
  double total = 0, statistic = 0;
  for (const double w : weights) total += w;
  std::vector<double> seen(weights.size());
  for (const DrawnToken& d : drawn) seen[static_cast<size_t>(d.token)] += 1;
  int kept = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double expected = weights[i] / total * static_cast<double>(drawn.size());
    EXPECT_TRUE(expected > 0 || seen[i] == 0) << "token " << i << " was not to be drawn";
    if (expected == 0) continue;
    ++kept;
    statistic += (seen[i] - expected) * (seen[i] - expected) / expected;
  }
  return (statistic - (kept - 1)) / std::sqrt(2.0 * (kept - 1));
}

TEST(SamplingTest, Draws_FollowTheDistribution_InWholeRowsAndInShards) {
  test::Random random(5);
  SamplingRow row = PlainRow(random, 30, 1);
  std::vector<double> weights;
  for (const float x : row.logits) weights.push_back(std::exp(x));
  EXPECT_LT(ChiSquareScore(weights, DrawWhole(Positions(row, 1, 1000)).tokens), 4);
  EXPECT_LT(ChiSquareScore(weights, DrawSharded(Positions(row, 2, 200), {11, 0, 19}, 8).tokens), 4);
  row.params.temperature = 0.5f;
  row.params.top_k = 12;
  std::vector<double> sorted = weights;
  std::sort(sorted.rbegin(), sorted.rend());
  for (double& w : weights) w = w >= sorted[11] ? w * w : 0;
  EXPECT_LT(ChiSquareScore(weights, DrawWhole(Positions(row, 3, 150)).tokens), 4);
  EXPECT_GT(ChiSquareScore(std::vector<double>(30, 1), DrawWhole(Positions(row, 4, 100)).tokens), 10);
}

/// Samples every row whole, in one shard, and in shards of which one is empty, and compares with the CPU.
void ExpectAllWays(const std::vector<SamplingRow>& batch, const std::string& what) {
  const int64_t vocab = std::ssize(batch[0].logits);
  int near_misses = ExpectLikeCpu(batch, DrawWhole(batch), what + ", whole");
  near_misses += ExpectLikeCpu(batch, DrawSharded(batch, {vocab}, 16), what + ", one shard");
  near_misses += ExpectLikeCpu(batch, DrawSharded(batch, {vocab / 3, 0, vocab - vocab / 3}, 16), what + ", shards");
  EXPECT_EQ(near_misses, 0);
}

TEST(SamplingTest, Ties_GoToTheLowestId_InWholeRowsAndInShards) {
  const int64_t vocab = 5000;  // more ties than a candidate list holds
  SamplingRow row;
  row.logits.assign(vocab, 1.5f);
  row.num_logprobs = 20;
  std::vector<SamplingRow> batch;
  for (const SamplingParams& params : std::vector<SamplingParams>{
           {.temperature = 0}, {}, {.top_k = 17}, {.top_p = 0.001f}, {.top_k = 3000, .top_p = 0.5f}, {.min_p = 1}}) {
    row.params = params;
    row.key.position += 7;
    batch.push_back(row);
  }
  ExpectAllWays(batch, "all tokens tie");
  for (SamplingRow& r : batch) {
    for (size_t i = 0; i < r.logits.size(); i += 3) r.logits[i] = 2;
    r.logits[4321] = -0.0f, r.logits[4322] = 0.0f;
  }
  ExpectAllWays(batch, "two values");
}

TEST(SamplingTest, Draws_EqualTheDrawsOfTheCpu_ForVocabulariesOfManyPieces) {
  test::Random random(8);
  SamplingRow row = PlainRow(random, 100'003, 12);
  std::vector<SamplingRow> batch;
  for (const SamplingParams& params :
       std::vector<SamplingParams>{{}, {.top_p = 0.95f}, {.temperature = 0.5f, .top_k = 300, .min_p = 0.01f}}) {
    row.params = params;
    row.num_logprobs = params.top_k > 0 ? 20 : -1;
    batch.push_back(row);
  }
  EXPECT_EQ(ExpectLikeCpu(batch, DrawWhole(batch), "whole"), 0);
  EXPECT_EQ(ExpectLikeCpu(batch, DrawSharded(batch, {33'334, 33'335, 33'334}, 128), "shards"), 0);
}

TEST(SamplingTest, OnlyAllowedToken_IsDrawn_AndNoTokenWhenItIsBanned) {
  SamplingRow row;
  row.logits.assign(700, -std::numeric_limits<float>::infinity());
  row.logits[650] = -80;
  row.num_logprobs = 5;
  std::vector<SamplingRow> batch;
  for (const SamplingParams& params :
       std::vector<SamplingParams>{{}, {.top_k = 10}, {.top_p = 0.9f}, {.min_p = 0.5f}}) {
    row.params = params;
    batch.push_back(row);
  }
  ExpectAllWays(batch, "all but one impossible");
  for (SamplingRow& r : batch) r.banned = {650}, r.num_logprobs = -1;
  ExpectAllWays(batch, "none possible");
}

TEST(SamplingTest, ExtremeSettingsAndLogits_GiveTheSameTokens_AsOnTheCpu) {
  test::Random random(6);
  SamplingRow row = PlainRow(random, 900, 2);
  std::vector<SamplingRow> batch;
  const size_t best = static_cast<size_t>(ArgMax(row.logits).token);
  row.num_logprobs = 3;
  for (const SamplingParams& params : std::vector<SamplingParams>{{.top_k = 1},
                                                                  {.top_p = 1e-9f},
                                                                  {.min_p = 1},
                                                                  {.temperature = 1e-38f},
                                                                  {.temperature = 1e-3f},
                                                                  {.temperature = 1e4f},
                                                                  {.top_k = 900},
                                                                  {.top_k = 899}}) {
    row.params = params;
    batch.push_back(row);
  }
  ExpectAllWays(batch, "extreme settings");
  for (SamplingRow& r : batch) r.logits[best] = 3.4e38f, r.logits[best / 2] = -3.4e38f;
  ExpectAllWays(batch, "extreme logits");
  for (SamplingRow& r : batch) r.logits[best] = std::numeric_limits<float>::infinity(), r.num_logprobs = -1;
  ExpectAllWays(batch, "an infinite logit");
}

TEST(SamplingTest, Draws_AreBitEqual_InEveryThreadOrder) {
  test::Random random(7);
  const auto batch = RandomBatch(random, 1200, 6);
  std::vector<DrawnToken> first;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    simt::WithOptions options({.seed = seed, .switch_chance = seed % 2 == 0 ? 0.0 : 0.05});
    Drawn drawn = DrawSharded(batch, {500, 700}, 32);
    if (seed == 0) first = drawn.tokens;
    EXPECT_EQ(std::memcmp(first.data(), drawn.tokens.data(), first.size() * sizeof(DrawnToken)), 0) << "seed " << seed;
  }
}

TEST(SamplingTest, Functions_LaunchNoKernel_WhenThereAreNoRows) {
  const SamplingRows none{.rows = nullptr, .num_rows = 0, .row_stride = 8, .vocab = 8};
  SampleRows({}, none, nullptr);
  SummarizeShard({}, none, 4, nullptr);
  DrawFromParts({}, {nullptr, nullptr, 0, 1, 4, nullptr, nullptr});
  DrawInShard({}, none, nullptr, 0, nullptr);
  MergeShardDraws({}, {nullptr, nullptr, 0, 1, 4, nullptr, nullptr}, nullptr);
  PackRows({}, none, {nullptr, 0, nullptr, nullptr});
}

}  // namespace
}  // namespace quire::kernels

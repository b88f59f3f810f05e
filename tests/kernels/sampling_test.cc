#include "kernels/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "kernels/cpu/isa/table.h"
#include "tests/support/random.h"

namespace quire::kernels {
namespace {

std::map<int32_t, double> Frequencies(const std::vector<float>& logits, const SamplingParams& params) {
  constexpr int kDraws = 40000;
  std::map<int32_t, double> share;
  for (uint64_t i = 0; i < kDraws; ++i) share[SampleToken(logits, params, {7, 0, i})] += 1.0 / kDraws;
  return share;
}

const std::vector<float> kLogits = {std::log(0.1f), std::log(0.4f), std::log(0.2f), std::log(0.25f), std::log(0.05f)};

TEST(SamplingTest, SampleToken_IsGreedyAndTakesTheLowestIdOfATie_AtTemperatureZero) {
  EXPECT_EQ(SampleToken(std::vector<float>{1, 5, 5, 2}, {.temperature = 0}, {1, 0, 0}), 1);
  EXPECT_EQ(SampleToken(kLogits, {.temperature = 2, .top_k = 1}, {1, 0, 0}), 1);
}

TEST(SamplingTest, ArgMax_FindsTheFirstOfTheHighestLogits_AtAnyPlace) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const size_t size : {1, 7, 16, 77}) {
    for (size_t at = 0; at < size; ++at) {
      std::vector<float> logits(size, -1);
      logits[at] = logits.back() = 3;
      EXPECT_EQ(ArgMax(logits).token, static_cast<int32_t>(at)) << size;
      logits[0] = at == 0 ? 3 : kNaN;
      EXPECT_EQ(ArgMax(logits).token, static_cast<int32_t>(at)) << size;
    }
    EXPECT_EQ(ArgMax(std::vector<float>(size, -kInfinity)).token, 0);
    EXPECT_EQ(ArgMax(std::vector<float>(size, kNaN)).token, 0);
  }
}

TEST(SamplingTest, SampleToken_DrawsNothing_WhenTheBestLogitIsNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> one(100, -kInfinity), endless(100, 1.0f);
  one[70] = 2;
  endless[30] = kInfinity;
  for (const SamplingParams& params :
       {SamplingParams{}, {.temperature = 0}, {.top_k = 5}, {.top_p = 0.5f}, {.temperature = 1e-38f}}) {
    EXPECT_EQ(SampleToken(std::vector<float>(100, -kInfinity), params, {1, 0, 0}), -1);
    EXPECT_EQ(SampleToken(std::vector<float>(100, kNaN), params, {1, 0, 0}), -1);
    EXPECT_EQ(SampleToken(endless, params, {1, 0, 0}), -1);
    EXPECT_EQ(SampleToken(one, params, {1, 0, 0}), 70);
  }
}

TEST(SamplingTest, SampleToken_FiltersByLogits_WhenWeightsAreEqualInFp32) {
  // At this temperature all tokens have the same weight in fp32.
  const std::vector<float> logits = {5.0f, 5.0000005f, 5.000001f};
  std::map<int32_t, double> share = Frequencies(logits, {.temperature = 100, .top_k = 2});
  EXPECT_EQ(share.count(0), 0u);
  EXPECT_EQ(share.size(), 2u);
  share = Frequencies(logits, {.temperature = 100, .min_p = 1});
  EXPECT_EQ(share.size(), 1u);
  EXPECT_EQ(share.count(2), 1u);
}

TEST(SamplingTest, Weigh_GivesTheSameBits_WithEveryInstructionSet) {
  test::Random random(8);
  for (const int64_t size : {1, 3, 64, 77, 5000}) {
    std::vector<float> logits = random.Floats(size), weights(logits.size()), plain(logits.size());
    for (float& x : logits) x *= 20;
    logits[0] = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> sums(static_cast<size_t>((size + kWeighBlock - 1) / kWeighBlock)), plain_sums(sums.size());
    const auto run = [&](const IsaTable& table, std::vector<float>& to, std::vector<float>& sums_to) {
      table.weigh({logits.data(), size, 20, 1 / 0.7f, -15, to.data(), sums_to.data()});
    };
    run(ActiveTable(), weights, sums);
    run(baseline::Table(), plain, plain_sums);
    EXPECT_EQ(weights, plain);
    EXPECT_EQ(sums, plain_sums);
  }
}

TEST(SamplingTest, LogSumExp_EqualsFp64_ForAnySize) {
  test::Random random(9);
  for (const int64_t size : {1, 5, 63, 64, 65, 129, 49152}) {
    auto logits = random.Floats(size);
    double sum = 0;
    for (float& x : logits) sum += std::exp(static_cast<double>(x *= 10));
    EXPECT_NEAR(LogSumExp(logits), std::log(sum), 2e-6) << size;
  }
}

TEST(SamplingTest, TopLogprobs_PutsNaNLast) {
  const std::vector<float> logits = {std::numeric_limits<float>::quiet_NaN(), 1, 2, 9};
  const auto top = TopLogprobs(logits, LogSumExp(logits), 4);
  EXPECT_EQ(top[0].first, 3);
  EXPECT_EQ(top[3].first, 0);
  EXPECT_EQ(top[3].second, -std::numeric_limits<float>::infinity());
}

TEST(SamplingTest, SampleToken_FollowsTheDistribution) {
  const auto share = Frequencies(kLogits, {});
  for (size_t i = 0; i < kLogits.size(); ++i) {
    EXPECT_NEAR(share.at(static_cast<int32_t>(i)), std::exp(kLogits[i]), 0.012) << "token " << i;
  }
}

TEST(SamplingTest, SampleToken_SharpensTheDistribution_AtTemperatureOneHalf) {
  const auto share = Frequencies(kLogits, {.temperature = 0.5f});
  const double norm = 0.01 + 0.16 + 0.04 + 0.0625 + 0.0025;
  EXPECT_NEAR(share.at(1), 0.16 / norm, 0.012);
  EXPECT_NEAR(share.at(0), 0.01 / norm, 0.012);
}

TEST(SamplingTest, SampleToken_DrawsFromTheKBest_WithTopK) {
  const auto share = Frequencies(kLogits, {.top_k = 2});
  EXPECT_EQ(share.size(), 2u);
  EXPECT_NEAR(share.at(1), 0.4 / 0.65, 0.012);
  EXPECT_NEAR(share.at(3), 0.25 / 0.65, 0.012);
}

TEST(SamplingTest, SampleToken_DrawsFromTheFewestTokensThatReachP_WithTopP) {
  EXPECT_EQ(Frequencies(kLogits, {.top_p = 0.39f}).size(), 1u);
  const auto share = Frequencies(kLogits, {.top_p = 0.6f});  // 0.4 is less than 0.6; 0.4 + 0.25 reaches 0.6
  EXPECT_EQ(share.size(), 2u);
  EXPECT_NEAR(share.at(3), 0.25 / 0.65, 0.012);
}

TEST(SamplingTest, SampleToken_ComparesWithTheBestToken_WithMinP) {
  const auto share = Frequencies(kLogits, {.min_p = 0.45f});  // leaves tokens of probability 0.18 or more
  EXPECT_EQ(share.size(), 3u);
  EXPECT_EQ(share.count(0), 0u);
}

TEST(SamplingTest, SampleToken_KeepsTheSameTokensAsAFullSort_WithTopPOverALargeVocabulary) {
  test::Random random(5);
  auto logits = random.Floats(5000);
  for (float& x : logits) x *= 3;
  std::vector<std::pair<double, int32_t>> sorted;
  double total = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    sorted.emplace_back(-std::exp(static_cast<double>(logits[i])), i);
    total += std::exp(static_cast<double>(logits[i]));
  }
  std::sort(sorted.begin(), sorted.end());
  double mass = 0;
  std::vector<bool> kept(logits.size());
  for (const auto& [weight, token] : sorted) {
    kept[static_cast<size_t>(token)] = true;
    if ((mass -= weight) >= 0.7 * total) break;
  }
  for (uint64_t i = 0; i < 300; ++i) {
    EXPECT_TRUE(kept[static_cast<size_t>(SampleToken(logits, {.top_p = 0.7f}, {3, 1, i}))]);
  }
}

// These rows are hard to order: they have equal logits, few different logits, one logit far above the others, or logits
// that differ only in the last bits of a float.
TEST(SamplingTest, SampleToken_KeepsTheSameTokensAsAFullSort_ForRowsThatAreHardToOrder) {
  test::Random random(11);
  for (int round = 0; round < 400; ++round) {
    const auto size = static_cast<size_t>(random.Between(1, 3000));
    auto logits = random.Floats(static_cast<int64_t>(size));
    const int64_t kind = random.Below(5);
    for (float& x : logits)
      x = kind == 0 ? x : kind == 1 ? std::round(3 * x) : kind == 2 ? 1 : kind == 3 ? x * 1e-38f : 1 + x * 1e-6f;
    if (random.Below(3) == 0) logits[static_cast<size_t>(random.Below(static_cast<int64_t>(size)))] += 100;
    const auto top_k = static_cast<int32_t>(random.Below(2) == 0 ? 0 : random.Between(1, static_cast<int64_t>(size)));
    const double top_p = random.Below(2) == 0 ? 1 : 0.001 * static_cast<double>(random.Between(1, 999));
    const float temperature = random.Below(2) == 0 ? 1.0f : 100.0f;
    std::vector<size_t> order(size);
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, std::greater<>(), [&](size_t token) { return logits[token]; });
    const auto weight = [&](size_t token) {
      return std::exp((static_cast<double>(logits[token]) - static_cast<double>(logits[order[0]])) /
                      static_cast<double>(temperature));
    };
    if (top_k > 0) order.resize(std::min(size, static_cast<size_t>(top_k)));
    double total = 0, mass = 0;
    for (const size_t token : order) total += weight(token);
    std::vector<bool> kept(size);
    for (const size_t token : order) {
      kept[token] = true;
      if ((mass += weight(token)) >= top_p * total * (1 + 1e-5)) break;  // rounding may leave one more token
    }
    for (uint64_t i = 0; i < 20; ++i) {
      const int32_t drawn = SampleToken(logits, {temperature, top_k, static_cast<float>(top_p)}, {3, 1, i});
      ASSERT_TRUE(kept[static_cast<size_t>(drawn)])
          << round << " " << size << " " << kind << " " << top_k << " " << top_p;
    }
  }
}

// Among tokens with equal logits, top_k and top_p leave those with the lowest ids. Each of these is sampled at least
// once.
TEST(SamplingTest, SampleToken_KeepsTheLowestIds_WhenLogitsAreEqual) {
  const std::vector<float> logits(500, 0.5f);
  for (const SamplingParams& params :
       {SamplingParams{.top_k = 3}, {.top_p = 0.0055f}, {.top_k = 250, .top_p = 0.011f}}) {
    const auto share = Frequencies(logits, params);
    EXPECT_EQ(share.size(), 3u);
    EXPECT_EQ(share.rbegin()->first, 2);
  }
}

TEST(SamplingTest, Philox_MatchesPublishedVectors) {
  // The expected number comes from Random123's kat_vectors: philox4x32-10 with counter and key zero gives 6627e8d5
  // e169c58d bc57ac4c 9b00dbd8.
  const double expected = static_cast<double>((uint64_t{0x6627e8d5} << 21) ^ (0xe169c58du >> 11)) * 0x1p-53;
  EXPECT_EQ(UniformFromKey({0, 0, 0}), expected);
}

TEST(SamplingTest, UniformFromKey_GivesDifferentNumbers_ForDifferentKeys) {
  EXPECT_NE(UniformFromKey({1, 0, 0}), UniformFromKey({2, 0, 0}));
  EXPECT_NE(UniformFromKey({1, 0, 0}), UniformFromKey({1, 1, 0}));
  EXPECT_NE(UniformFromKey({1, 0, 0}), UniformFromKey({1, 0, 1}));
  EXPECT_NE(UniformFromKey({1, 0, 0}), UniformFromKey({1, 0, uint64_t{1} << 32}));
}

TEST(SamplingTest, ApplyPenalties_ChangesSeenTokensOnly) {
  std::vector<float> logits = {2, -2, 1, 1};
  ApplyPenalties(logits, {.repetition = 2, .frequency = 0.5f, .presence = 0.25f},
                 std::vector<std::pair<int32_t, int32_t>>{{0, 0}, {1, 0}, {2, 3}});
  EXPECT_EQ(logits, (std::vector<float>{1, -4, 0.5f - 1.5f - 0.25f, 1}));
}

TEST(SamplingTest, RankOf_AgreesWithTopLogprobs) {
  const std::vector<float> logits = {1, 3, std::nanf(""), 3, -2, 7, 1};
  const auto top = TopLogprobs(logits, LogSumExp(logits), static_cast<int>(logits.size()));
  for (size_t i = 0; i < top.size(); ++i) EXPECT_EQ(RankOf(logits, top[i].first), static_cast<int32_t>(i) + 1);
}

TEST(SamplingTest, TopLogprobs_AreSortedAndNormalised) {
  const double lse = LogSumExp(kLogits);
  EXPECT_NEAR(lse, 0, 1e-6);
  const auto top = TopLogprobs(kLogits, lse, 3);
  ASSERT_EQ(top.size(), 3u);
  EXPECT_EQ(top[0].first, 1);
  EXPECT_EQ(top[1].first, 3);
  EXPECT_EQ(top[2].first, 2);
  EXPECT_NEAR(top[1].second, std::log(0.25), 1e-6);
}

}  // namespace
}  // namespace quire::kernels

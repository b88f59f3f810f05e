#include "tests/bench/memory_policies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "comm/base/error.h"
#include "tests/bench/contiguous_pool.h"
#include "tests/bench/memory_report.h"
#include "tests/support/random.h"

namespace quire {
namespace {

using testing::AllOf;
using testing::Gt;
using testing::HasSubstr;
using testing::Lt;

constexpr std::array kAll{KvPolicy::kPaged, KvPolicy::kOracle, KvPolicy::kPowerOfTwo, KvPolicy::kReserveMax};

// --- traces ---

TEST(MemoryTrace, LengthsOfRequests_HaveTheMeansOfTheLiterature) {
  const auto means = [](LengthDistribution lengths) {
    double prompt = 0, output = 0;
    for (const TraceRequest& request : MakeTrace({lengths, 20000})) {
      prompt += request.prompt_tokens / 20000.0;
      output += request.output_tokens / 20000.0;
      EXPECT_GE(std::min(request.prompt_tokens, request.output_tokens), 1);
      EXPECT_LE(request.prompt_tokens + request.output_tokens, 2048);
      EXPECT_EQ(request.arrival_seconds, 0);
    }
    return std::pair(prompt, output);
  };
  const auto [chat_prompt, chat_output] = means(LengthDistribution::kShareGpt);
  EXPECT_NEAR(chat_prompt, 161.3, 5);
  EXPECT_NEAR(chat_output, 338.0, 8);
  const auto [short_prompt, short_output] = means(LengthDistribution::kAlpaca);
  EXPECT_NEAR(short_prompt, 19.3, 0.5);
  EXPECT_NEAR(short_output, 58.5, 2);
  const auto [any_prompt, any_output] = means(LengthDistribution::kUniform);
  EXPECT_NEAR(any_prompt, 512.5, 10);
  EXPECT_NEAR(any_output, 512.5, 10);
}

TEST(MemoryTrace, Arrivals_HaveTheGivenRate_WithoutAnEffectOnTheLengthsOfRequests) {
  const auto at_once = MakeTrace({LengthDistribution::kAlpaca, 10000, 0, 2048, 3});
  auto poisson = MakeTrace({LengthDistribution::kAlpaca, 10000, 4.0, 2048, 3});
  EXPECT_NEAR(poisson.back().arrival_seconds, 2500, 100);
  int short_gaps = 0;  // gaps shorter than the mean; for exponential gaps a share of 1 - 1/e
  for (size_t i = 1; i < poisson.size(); ++i) {
    EXPECT_GE(poisson[i].arrival_seconds, poisson[i - 1].arrival_seconds);
    short_gaps += poisson[i].arrival_seconds - poisson[i - 1].arrival_seconds < 0.25;
  }
  EXPECT_NEAR(short_gaps / 9999.0, 1 - std::exp(-1), 0.02);
  for (TraceRequest& request : poisson) request.arrival_seconds = 0;
  EXPECT_EQ(poisson, at_once);
}

TEST(MemoryTrace, Trace_IsDeterminedByItsSeed_AndDistributionsAreFoundByName) {
  EXPECT_EQ(MakeTrace({}), MakeTrace({}));
  TraceSpec other;
  other.seed = 2;
  EXPECT_NE(MakeTrace({}), MakeTrace(other));
  EXPECT_EQ(LengthDistributionNamed("sharegpt"), other.lengths);
  EXPECT_THROW(LengthDistributionNamed("Alpaca"), Error);
}

// --- the contiguous pool ---

TEST(ContiguousPool, Allocate_TakesTheSmallestHoleThatFits) {
  ContiguousPool pool(100);
  EXPECT_EQ(pool.Allocate(30), 0);
  EXPECT_EQ(pool.Allocate(10), 30);
  EXPECT_EQ(pool.Allocate(20), 40);
  EXPECT_EQ(pool.Allocate(10), 60);
  pool.Free(0);
  pool.Free(40);
  EXPECT_EQ(pool.Allocate(15), 40);
  EXPECT_EQ(pool.Allocate(31), std::nullopt);  // 65 slots are free, 30 of them in one piece
  EXPECT_EQ(pool.num_free(), 65);
  EXPECT_EQ(pool.largest_hole(), 30);
  pool.CheckIntegrity();
}

TEST(ContiguousPool, Free_JoinsTheHolesOnBothSides) {
  ContiguousPool pool(30);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(pool.Allocate(10));
  EXPECT_EQ(pool.Allocate(1), std::nullopt);
  pool.Free(0);
  pool.Free(20);
  EXPECT_EQ(pool.largest_hole(), 10);
  pool.Free(10);
  EXPECT_EQ(pool.largest_hole(), 30);
  EXPECT_EQ(pool.Allocate(30), 0);
  EXPECT_EQ(pool.largest_hole(), 0);
}

TEST(ContiguousPool, Pool_KeepsItsInvariants_UnderRandomOperations) {
  test::Random random(7);
  ContiguousPool pool(1000);
  std::vector<int> owner(1000, 0);  // owner of each slot; 0 means free
  std::vector<std::pair<int64_t, int64_t>> held;
  const auto paint = [&](int64_t begin, int64_t size, int from, int to) {
    for (int64_t slot = begin; slot < begin + size; ++slot) {
      ASSERT_EQ(owner.at(static_cast<size_t>(slot)), from);
      owner[static_cast<size_t>(slot)] = to;
    }
  };
  for (int i = 1; i <= 20000; ++i) {
    if (!held.empty() && random.Below(100) < 48) {
      std::swap(held[static_cast<size_t>(random.Below(static_cast<int64_t>(held.size())))], held.back());
      const auto [begin, size] = held.back();
      held.pop_back();
      pool.Free(begin);
      paint(begin, size, owner[static_cast<size_t>(begin)], 0);
    } else {
      const int64_t size = random.Between(1, 120);
      const int64_t largest = pool.largest_hole();
      const auto begin = pool.Allocate(size);
      ASSERT_EQ(begin.has_value(), size <= largest);
      if (!begin) continue;
      paint(*begin, size, 0, i);
      held.emplace_back(*begin, size);
    }
    pool.CheckIntegrity();
    ASSERT_EQ(pool.num_free(), std::count(owner.begin(), owner.end(), 0));
  }
}

TEST(ContiguousPoolDeathTest, Free_Aborts_WhenNoRegionBeginsAtTheSlot) {
  ContiguousPool pool(10);
  ASSERT_EQ(pool.Allocate(4), 0);
  EXPECT_DEATH(pool.Free(1), "no region begins at slot 1");
}

// --- the policies ---

/// Simulates a chat trace whose requests all arrive at time 0.
class MemoryPolicies : public testing::Test {
 protected:
  static MemoryResult Run(KvPolicy policy, int block_size = 16) {
    MemorySetup setup;
    setup.block_size = block_size;
    return SimulateMemory(policy, setup, Trace());
  }
  static std::vector<TraceRequest> Trace() { return MakeTrace({LengthDistribution::kShareGpt, 400}); }
};

TEST_F(MemoryPolicies, Paging_WastesLessThanFourPercent_OfTheMemory) {
  EXPECT_GE(MeanTokens(Trace()), 190);  // half a block of 16 tokens is 4 % of this mean
  const MemoryResult paged = Run(KvPolicy::kPaged);
  EXPECT_LT(paged.kv_waste, 0.04);
  EXPECT_EQ(paged.shares.external, 0);
  EXPECT_EQ(Run(KvPolicy::kPaged, 1).kv_waste, 0);
}

TEST_F(MemoryPolicies, PagedWaste_GrowsWithTheBlockSize) {
  double less = -1;
  for (int size = 1; size <= 256; size *= 2) {
    const double waste = Run(KvPolicy::kPaged, size).kv_waste;
    EXPECT_GT(waste, less) << size;
    less = waste;
  }
  EXPECT_GT(less, 0.10);
}

TEST_F(MemoryPolicies, ReserveMaxPolicy_WastesTheMostMemory_AndTheOraclePolicyReservesOnlyUsedSlots) {
  EXPECT_THAT(Run(KvPolicy::kReserveMax).kv_waste, AllOf(Gt(0.60), Lt(0.85)));
  const MemoryResult oracle = Run(KvPolicy::kOracle);
  EXPECT_EQ(oracle.shares.internal, 0);
  EXPECT_GT(oracle.shares.reserved, 0);
  EXPECT_GT(oracle.shares.external, 0);
}

TEST_F(MemoryPolicies, ThroughputAndBatch_Shrink_WhenWasteGrows) {
  MemoryResult better = Run(KvPolicy::kPaged);
  const double best = better.output_tokens_per_second;
  for (const KvPolicy policy : {KvPolicy::kOracle, KvPolicy::kPowerOfTwo, KvPolicy::kReserveMax}) {
    const MemoryResult result = Run(policy);
    EXPECT_GT(result.kv_waste, better.kv_waste) << NameOf(policy);
    EXPECT_LT(result.output_tokens_per_second, better.output_tokens_per_second) << NameOf(policy);
    EXPECT_LT(result.mean_batch, better.mean_batch) << NameOf(policy);
    better = result;
  }
  EXPECT_THAT(best / better.output_tokens_per_second, AllOf(Gt(2), Lt(4)));  // published: 2 to 4 times
}

TEST_F(MemoryPolicies, SharesOfMemory_CountEverySlotOnce) {
  for (const KvPolicy policy : kAll) {
    const MemoryResult result = Run(policy);
    const MemoryUsage& s = result.shares;
    EXPECT_NEAR(s.allocated() + s.external + s.free, 1, 1e-9) << NameOf(policy);
    for (const double share : {s.live, s.reserved, s.internal, s.external, s.free}) EXPECT_GE(share, 0);
    EXPECT_NEAR(result.busy_seconds, result.makespan_seconds, 1e-6);
  }
}

TEST_F(MemoryPolicies, Policies_ComputeEveryTokenOnce_UnlessRequestsArePreempted) {
  int64_t tokens = 0;
  for (const TraceRequest& request : Trace()) tokens += request.prompt_tokens + request.output_tokens - 1;
  for (const KvPolicy policy : kAll) {
    const MemoryResult result = Run(policy);
    EXPECT_GE(result.computed_tokens, tokens) << NameOf(policy);
    EXPECT_EQ(result.computed_tokens > tokens, result.preemptions > 0) << NameOf(policy);
  }
}

TEST_F(MemoryPolicies, Policies_GiveEqualResults_ForTheSameTrace) {
  for (const KvPolicy policy : kAll) {
    const MemoryResult a = Run(policy), b = Run(policy);
    EXPECT_EQ(a.makespan_seconds, b.makespan_seconds);
    EXPECT_EQ(a.shares.live, b.shares.live);
    EXPECT_EQ(a.normalised_latency, b.normalised_latency);
  }
}

// Simulates one request, so every number is known beforehand: a prompt of 10 tokens in chunks of 8, and 4 output
// tokens.
TEST(MemoryPoliciesAlone, SimulateMemory_ChargesOneRequestAsTheCostModelSays) {
  MemorySetup setup;
  setup.capacity_tokens = 64;
  setup.max_model_len = 32;
  setup.block_size = 4;
  setup.max_step_tokens = setup.max_running = 8;
  setup.cost = {1.0, 0.1, 0.01};
  const std::vector<TraceRequest> trace{{5.0, 10, 4}};
  // Steps compute 8, 2, 1, 1, 1 tokens over contexts of 8, 10, 11, 12, 13.
  const double seconds = 5 * 1.0 + 13 * 0.1 + 54 * 0.01;
  const double capacity = 5 * 64;
  for (const KvPolicy policy : kAll) {
    const MemoryResult r = SimulateMemory(policy, setup, trace);
    EXPECT_EQ(r.steps, 5);
    EXPECT_EQ(r.computed_tokens, 13);
    EXPECT_EQ(r.peak_batch, 1);
    EXPECT_NEAR(r.busy_seconds, seconds, 1e-9);
    EXPECT_NEAR(r.makespan_seconds, 5 + seconds, 1e-9);
    EXPECT_NEAR(r.normalised_latency, seconds / 4, 1e-9);
    EXPECT_NEAR(r.shares.live, 54 / capacity, 1e-9);
  }
  const MemoryUsage paged = SimulateMemory(KvPolicy::kPaged, setup, trace).shares;
  EXPECT_NEAR(paged.internal, (0 + 2 + 1 + 0 + 3) / capacity, 1e-9);
  const MemoryUsage oracle = SimulateMemory(KvPolicy::kOracle, setup, trace).shares;
  EXPECT_NEAR(oracle.reserved, (5 + 3 + 2 + 1 + 0) / capacity, 1e-9);
  const MemoryUsage power = SimulateMemory(KvPolicy::kPowerOfTwo, setup, trace).shares;
  EXPECT_NEAR(power.internal, 5 * 1 / capacity, 1e-9);  // 10 + 4 slots; the last token is never computed
  const MemoryUsage most = SimulateMemory(KvPolicy::kReserveMax, setup, trace).shares;
  EXPECT_NEAR(most.internal, 5 * 19 / capacity, 1e-9);
}

TEST(MemoryPoliciesAlone, SimulateMemory_Throws_WhenARequestNeverFits) {
  MemorySetup setup;
  setup.capacity_tokens = 1024;
  EXPECT_THROW(SimulateMemory(KvPolicy::kReserveMax, setup, std::vector<TraceRequest>{{0, 10, 10}}), Error);
  for (const KvPolicy policy : kAll)
    EXPECT_THROW(SimulateMemory(policy, setup, std::vector<TraceRequest>{{0, 1000, 100}}), Error) << NameOf(policy);
}

// --- the report ---

TEST(MemoryReport, Report_HoldsEveryRun_AndIsReproducible) {
  MemoryBench bench;
  bench.num_requests = 60;
  const MemoryReport report = RunMemoryBench(bench);
  EXPECT_EQ(report.policies.size(), 3u * 4u);
  EXPECT_EQ(report.block_sizes.size(), 3u * 9u);
  EXPECT_EQ(report.rates.size(), 3u * 4u * 14u);
  const std::string table = TableOf(report);
  for (const KvPolicy policy : kAll) EXPECT_THAT(table, HasSubstr(NameOf(policy)));
  const Json json = JsonOf(report);
  EXPECT_EQ(json["policies"].size(), report.policies.size());
  EXPECT_EQ(json["policies"][0]["policy"], "paged");
  EXPECT_EQ(json["policies"][0]["kv_waste"], report.policies[0].result.kv_waste);
  EXPECT_EQ(DumpJson(json), DumpJson(JsonOf(RunMemoryBench(bench))));
}

TEST(MemoryReport, SustainedRate_IsInterpolated_WhereTheLatencyReachesTheLimit) {
  MemoryReport report;
  report.bench.latency_limit = 0.1;
  for (const auto& [rate, latency] : {std::pair{1.0, 0.05}, {2.0, 0.06}, {3.0, 0.14}, {4.0, 0.5}}) {
    report.rates.push_back({LengthDistribution::kShareGpt, KvPolicy::kOracle, 16, rate, {}});
    report.rates.back().result.normalised_latency = latency;
  }
  const auto rate = SustainedRate(report, LengthDistribution::kShareGpt, KvPolicy::kOracle);
  ASSERT_TRUE(rate);
  EXPECT_NEAR(*rate, 2.5, 1e-9);
  EXPECT_EQ(SustainedRate(report, LengthDistribution::kAlpaca, KvPolicy::kOracle), std::nullopt);
  report.bench.latency_limit = 0.01;
  EXPECT_EQ(SustainedRate(report, LengthDistribution::kShareGpt, KvPolicy::kOracle), std::nullopt);
}

}  // namespace
}  // namespace quire

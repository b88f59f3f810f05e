#include "coordinator/cluster/launch/pool_sizing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "comm/base/error.h"
#include "comm/base/host_name.h"
#include "comm/topology/request_memory.h"
#include "coordinator/cluster/launch/grammar_sizing.h"
#include "coordinator/cluster/launch/host_fit.h"

namespace quire {
namespace {

constexpr int64_t kMiB = 1 << 20, kGiB = int64_t{1} << 30;

/// Returns two ranks on one host with `available` free bytes. A block takes 1 MiB on rank 0 and 2 MiB on rank 1.
std::vector<RankInfo> Ranks(int64_t available) {
  std::vector<RankInfo> ranks(2);
  ranks[0].host = ranks[1].host = "here";
  ranks[0].bytes_per_block = kMiB;
  ranks[1].bytes_per_block = 2 * kMiB;
  ranks[0].available_bytes = ranks[1].available_bytes = available;
  return ranks;
}

int SizedBlocks(const Topology& topology, BackendKind backend, int64_t available, int needed = 1) {
  return ChoosePools(topology, backend, Ranks(available), {.max_model_len = 1 << 20, .blocks_needed = needed})
      .num_blocks;
}

TEST(PoolSizingTest, DefaultSize_LeavesRoomForRequests_OnTheCoordinatorsHostOnly) {
  Topology t;
  t.limits.memory_bytes = 500 * kMiB;
  std::vector<RankInfo> ranks = Ranks(1500 * kMiB);
  const auto blocks = [&] { return ChoosePools(t, BackendKind::kCpu, ranks, {.max_model_len = 1 << 20}).num_blocks; };
  const int elsewhere = blocks();
  EXPECT_EQ(elsewhere, 337);  // 0.9 * 1500 MiB / 2 ranks / 2 MiB
  ranks[0].host = ranks[1].host = OwnHostName();
  EXPECT_EQ(blocks(), 225);  // 0.9 * (1500 - 500) MiB / 2 ranks / 2 MiB
  for (RankInfo& rank : ranks) rank.memory_limit = kGivenMemory;
  EXPECT_EQ(blocks(), elsewhere);
}

TEST(PoolSizingTest, MemoryOfRequests_IsAtMostAnEighthOfTheTotal_UnlessItIsSet) {
  Topology::Limits limits;
  EXPECT_EQ(MemoryOfRequests(limits, 16 * kGiB), 512 * kMiB);
  EXPECT_EQ(MemoryOfRequests(limits, 800 * kMiB), 100 * kMiB);
  EXPECT_EQ(MemoryOfRequests(limits, 80 * kMiB), Topology::Limits::kLeastMemory);
  EXPECT_EQ(MemoryOfRequests(limits, 0), 512 * kMiB) << "the total is unknown";
  limits.memory_bytes = 600 * kMiB;
  EXPECT_EQ(MemoryOfRequests(limits, 800 * kMiB), 600 * kMiB);
}

TEST(PoolSizingTest, GrammarMemory_IsAtMostAnEighthOfTheHost_DividedBetweenItsRanks) {
  std::vector<RankInfo> ranks = Ranks(kGiB);
  Topology t;
  const GrammarMemory usual;
  EXPECT_EQ(GrammarMemoryOf(t, ranks).total(), usual.total()) << "the total is unknown";
  for (RankInfo& rank : ranks) rank.memory_bytes = 64 * kGiB;
  EXPECT_EQ(GrammarMemoryOf(t, ranks).total(), usual.total());
  ranks[0].memory_bytes = 2400 * kMiB;  // an eighth of it, divided between two ranks, is 150 MiB
  EXPECT_EQ(GrammarMemoryOf(t, ranks).compiled, 50 * kMiB);
  EXPECT_EQ(GrammarMemoryOf(t, ranks).cached, 25 * kMiB);
  EXPECT_EQ(GrammarMemoryOf(t, ranks).answers, 75 * kMiB);
  ranks[1].host = "elsewhere";
  EXPECT_EQ(GrammarMemoryOf(t, ranks).total(), 300 * kMiB);
  ranks[1].memory_bytes = 100 * kMiB;
  EXPECT_EQ(GrammarMemoryOf(t, ranks).total(), 24 * kMiB) << "the least";
}

TEST(PoolSizingTest, DefaultSize_LeavesRoomForGrammars_OnCpusOnly) {
  Topology t;
  std::vector<RankInfo> ranks = Ranks(2000 * kMiB);
  for (RankInfo& rank : ranks) rank.memory_bytes = 2400 * kMiB;
  const auto blocks = [&](BackendKind backend) {
    return ChoosePools(t, backend, ranks, {.max_model_len = 1 << 20}).num_blocks;
  };
  EXPECT_EQ(blocks(BackendKind::kCpu), 382);  // 0.9 * (2000 / 2 ranks - 150) MiB / 2 MiB
  EXPECT_EQ(blocks(BackendKind::kCuda), 900);
  t.cache.memory_bytes = 100 * kMiB;
  EXPECT_EQ(blocks(BackendKind::kCpu), 50) << "a size that is set is taken";
  t.cache.memory_bytes = 0;
  for (RankInfo& rank : ranks) rank.available_bytes = 300 * kMiB;
  EXPECT_EQ(blocks(BackendKind::kCpu), 67) << "grammars keep no server from starting";
}

TEST(PoolSizingTest, TokensOfAStep_DependOnTheBackend_AndSufficeForOneTokenOfEverySequence) {
  Topology t;
  EXPECT_EQ(ChooseStepTokens(t, BackendKind::kCpu), 512);
  EXPECT_EQ(ChooseStepTokens(t, BackendKind::kCuda), 2048);
  t.scheduler.max_running = 1000;
  EXPECT_EQ(ChooseStepTokens(t, BackendKind::kCpu), 1000);
  t.scheduler.max_step_tokens = 64;
  EXPECT_EQ(ChooseStepTokens(t, BackendKind::kCuda), 64);
}

TEST(PoolSizingTest, PromptsOfAnEncoder_MayBeLongerThanAStep) {
  ModelSpec spec;
  spec.bidirectional = true;
  spec.max_position = 8192;
  Topology t;
  t.scheduler.max_step_tokens = 64;
  EXPECT_EQ(ChooseModelLen(t, spec), 8192);
  t.scheduler.max_model_len = 100;
  EXPECT_EQ(ChooseModelLen(t, spec), 100);
}

TEST(PoolSizingTest, MaxModelLen_IsTheTrainedLength_UnlessAScaledLengthIsRequested) {
  ModelSpec spec;
  spec.max_position = 2048;
  spec.longest_position = 16384;  // positions are scaled linearly
  Topology t;
  EXPECT_EQ(ChooseModelLen(t, spec), 2048);
  t.scheduler.max_model_len = 16384;
  EXPECT_EQ(ChooseModelLen(t, spec), 16384);
  t.scheduler.max_model_len = 16385;
  EXPECT_THROW(ChooseModelLen(t, spec), Error);
}

TEST(PoolSizingTest, NumBlocks_DivideHostMemoryBetweenRanks_ButNotGpuMemory) {
  Topology t;
  t.cache.memory = 0.5;
  EXPECT_EQ(SizedBlocks(t, BackendKind::kCpu, 400 * kMiB), 50) << "of the larger blocks, in half of each rank's half";
  EXPECT_EQ(SizedBlocks(t, BackendKind::kCuda, 400 * kMiB), 100);
  t.parallel.replicas = 2;
  EXPECT_EQ(SizedBlocks(t, BackendKind::kCpu, 400 * kMiB), 25) << "the other replica's ranks are here, too";
}

TEST(PoolSizingTest, NumBlocks_OnALargeHost_AreCapped_UnlessRequestsNeedMore) {
  Topology t;
  EXPECT_EQ(SizedBlocks(t, BackendKind::kCpu, 100 * kGiB), 2048) << "4 GiB";
  EXPECT_EQ(SizedBlocks(t, BackendKind::kCpu, 100 * kGiB, 3000), 3000);
  EXPECT_EQ(SizedBlocks(t, BackendKind::kCuda, 100 * kGiB), 46080) << "nine tenths of it";
}

TEST(PoolSizingTest, StateBlocks_AreTheMostThatAnyRankNeeds) {
  std::vector<RankInfo> ranks = Ranks(kGiB);
  EXPECT_EQ(StateBlocks(ranks), 0);
  ranks[0].bytes_per_state = 3 * kMiB;
  ranks[1].bytes_per_state = 5 * kMiB;
  EXPECT_EQ(StateBlocks(ranks), 3);
  ranks[0].bytes_per_state += 1;
  EXPECT_EQ(StateBlocks(ranks), 4);
  EXPECT_EQ(ChoosePools(Topology(), BackendKind::kCpu, ranks, {.max_model_len = 100}).state_blocks, 4);
  Topology small;
  small.cache.num_blocks = 4;
  EXPECT_THROW(ChoosePools(small, BackendKind::kCpu, ranks, {.max_model_len = 100}), Error);
  small.cache.num_blocks = 5;
  EXPECT_EQ(ChoosePools(small, BackendKind::kCpu, ranks, {.max_model_len = 100}).num_blocks, 6);
  ranks[0].bytes_per_state = int64_t{5000} * kMiB;
  EXPECT_THROW(StateBlocks(ranks), Error);
}

TEST(PoolSizingTest, NumBlocks_FollowTheSettings_PlusTheNullBlock) {
  Topology t;
  t.cache.memory_bytes = 10 * kMiB;
  EXPECT_EQ(SizedBlocks(t, BackendKind::kCpu, kGiB), 5);
  t.cache.num_blocks = 7;
  EXPECT_EQ(SizedBlocks(t, BackendKind::kCpu, kGiB), 8);
}

TEST(PoolSizingTest, NumBlocks_AreAtMostTheBlocksThatAllSequencesCanFill) {
  Topology t;
  t.scheduler.max_running = 3;
  const PoolDemand demand{.max_model_len = 33};
  EXPECT_EQ(ChoosePools(t, BackendKind::kCpu, Ranks(kGiB), demand).num_blocks, 3 * 3 + 1);
}

TEST(PoolSizingTest, NumHostBlocks_FitTheRankWithTheLargestBlocks) {
  Topology t;
  t.cache.host_swap_bytes = 9 * kMiB;
  EXPECT_EQ(ChoosePools(t, BackendKind::kCpu, Ranks(kGiB), {.max_model_len = 64}).num_host_blocks, 4);
}

/// Returns the reason why ChoosePools refuses a topology; empty if the topology is accepted.
std::string Refusal(const Topology& topology, BackendKind backend, const std::vector<RankInfo>& ranks) {
  try {
    ChoosePools(topology, backend, ranks, {.max_model_len = 64});
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

/// Returns two ranks, each with `weights` bytes of weights, on a host with a limit of `total` bytes and `available`
/// free bytes.
std::vector<RankInfo> LimitedRanks(int64_t total, int64_t available, int64_t weights) {
  std::vector<RankInfo> ranks = Ranks(available);
  for (RankInfo& rank : ranks) {
    rank.memory_bytes = total;
    rank.memory_limit = "control group /a (memory.max)";
    rank.weight_bytes = weights;
  }
  return ranks;
}

TEST(PoolSizingTest, Refusal_NamesSwapSpaceAndAdapters_WhenTheyLeaveNothingToTheKvCache) {
  Topology t;
  t.lora.dirs = {"/adapters"};
  t.lora.memory_bytes = 300 * kMiB;
  const auto refused_with = [&](const std::string& remedy) {
    EXPECT_THAT(Refusal(t, BackendKind::kCpu, Ranks(400 * kMiB)),
                testing::HasSubstr("0 are there; " + remedy + ", free memory"));
  };
  refused_with("lower --lora-memory");
  t.cache.host_swap_bytes = 50 * kMiB;
  refused_with("lower --swap-space or --lora-memory");
  t.lora.dirs.clear();
  t.cache.host_swap_bytes = 200 * kMiB;
  refused_with("lower --swap-space");
}

TEST(PoolSizingTest, Refusal_IsOfASetting_WhenTheKvCacheCouldNotFitIntoAnEmptyHostEither) {
  Topology t;
  t.lora.dirs = {"/adapters"};
  t.lora.memory_bytes = 300 * kMiB;
  const auto choose = [&](int64_t total) {
    ChoosePools(t, BackendKind::kCpu, LimitedRanks(total, 400 * kMiB, 0), {.max_model_len = 64});
  };
  EXPECT_THROW(choose(500 * kMiB), SettingsError);
  try {
    choose(800 * kMiB);
    ADD_FAILURE();
  } catch (const SettingsError& error) {
    ADD_FAILURE() << "a later try may find more memory";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("lower --lora-memory"));
  }
}

TEST(PoolSizingTest, Sizes_AreRefused_WhenTheHostCanNeverHoldThem) {
  struct Case {
    const char* name;
    std::function<void(Topology&)> ask;
    const char* flag;  // the flag that the refusal names; empty: none
  };
  const std::vector<Case> cases = {
      {"all of it is there", [](Topology& t) { t.cache.memory_bytes = 4 * kGiB; }, ""},
      {"a rank alone would fit", [](Topology& t) { t.cache.memory_bytes = 6 * kGiB; }, "--kv-cache-memory-bytes"},
      {"far beyond it", [](Topology& t) { t.cache.memory_bytes = 200 * kGiB; }, "--kv-cache-memory-bytes"},
      {"beyond 64 bits", [](Topology& t) { t.cache.memory_bytes = INT64_MAX; }, "--kv-cache-memory-bytes"},
      {"blocks that fit", [](Topology& t) { t.cache.num_blocks = 2700; }, ""},
      {"blocks that do not", [](Topology& t) { t.cache.num_blocks = 2800; }, "--num-kv-blocks"},
      {"swap space that fits", [](Topology& t) { t.cache.host_swap_bytes = kGiB; }, ""},
      {"swap space that does not", [](Topology& t) { t.cache.host_swap_bytes = 500 * kGiB; }, "--swap-space"},
      {"both, each of which would fit", [](Topology& t) { t.cache.memory_bytes = t.cache.host_swap_bytes = 3 * kGiB; },
       "--kv-cache-memory-bytes and --swap-space"},
      {"the other replica's ranks are here, too",
       [](Topology& t) { t.cache.memory_bytes = 3 * kGiB, t.parallel.replicas = 2; }, "--kv-cache-memory-bytes"},
      {"memory of all models that fits", [](Topology& t) { t.models_memory_bytes = 10 * kGiB; }, ""},
      {"memory of all models that does not", [](Topology& t) { t.models_memory_bytes = 10 * kGiB + 1; },
       "--models-memory"},
  };
  for (const Case& c : cases) {
    Topology topology;
    c.ask(topology);
    const std::string said = Refusal(topology, BackendKind::kCpu, LimitedRanks(10 * kGiB, 8 * kGiB, kGiB));
    EXPECT_EQ(said.empty(), *c.flag == '\0') << c.name << ": " << said;
    if (*c.flag == '\0') continue;
    EXPECT_TRUE(said.ends_with(fmt::format("; lower {}", c.flag))) << c.name << ": " << said;
    EXPECT_NE(said.find("control group /a (memory.max) allows 10.0 GiB in all"), std::string::npos) << said;
  }
  EXPECT_NE(Refusal(Topology(), BackendKind::kCpu, LimitedRanks(kGiB, 0, kGiB)).find("weights of fewer bits"),
            std::string::npos);
}

TEST(PoolSizingTest, GpuCaches_AreLimitedByTheGpu_AndSwapSpaceByTheHost) {
  Topology cache, swap;
  cache.cache.memory_bytes = 9 * kGiB;
  EXPECT_NE(Refusal(cache, BackendKind::kCuda, LimitedRanks(10 * kGiB, 8 * kGiB, kGiB)).find("its GPU has 8.0 GiB"),
            std::string::npos);
  cache.cache.memory_bytes = 8 * kGiB;
  EXPECT_EQ(Refusal(cache, BackendKind::kCuda, LimitedRanks(10 * kGiB, 8 * kGiB, kGiB)), "");
  swap.cache.host_swap_bytes = 6 * kGiB;
  EXPECT_NE(Refusal(swap, BackendKind::kCuda, LimitedRanks(10 * kGiB, 8 * kGiB, kGiB)).find("lower --swap-space"),
            std::string::npos);
}

TEST(PoolSizingTest, Sizes_CauseAWarning_WhenTheyExceedTheHostsFreeMemory) {
  const auto ranks = LimitedRanks(10 * kGiB, 2 * kGiB, kGiB);
  Topology t;
  EXPECT_EQ(HostWarnings(t, BackendKind::kCpu, ranks), std::vector<std::string>());
  t.cache.memory_bytes = kGiB;
  EXPECT_EQ(HostWarnings(t, BackendKind::kCpu, ranks), std::vector<std::string>());
  t.cache.host_swap_bytes = kGiB;
  ASSERT_EQ(HostWarnings(t, BackendKind::kCpu, ranks).size(), 1);
  EXPECT_NE(HostWarnings(t, BackendKind::kCpu, ranks)[0].find("may take 4.0 GiB, and 2.0 GiB are free"),
            std::string::npos);
}

TEST(PoolSizingTest, ModelsMemory_CausesAWarning_WhenItExceedsTheFreeMemory) {
  Topology t;
  EXPECT_EQ(ModelsMemoryWarning(t, kGiB), "");
  t.models_memory_bytes = kGiB;
  EXPECT_EQ(ModelsMemoryWarning(t, kGiB), "");
  EXPECT_NE(ModelsMemoryWarning(t, kGiB / 2).find("take 1.0 GiB, and 512.0 MiB are free now"), std::string::npos);
}

TEST(PoolSizingTest, Threads_CauseAWarning_WhenTheyOutnumberProcessors) {
  auto ranks = Ranks(kGiB);
  Topology t;
  t.threads_per_worker = 2;
  EXPECT_TRUE(HostWarnings(t, BackendKind::kCpu, ranks).empty()) << "nothing is known of the host";
  for (RankInfo& rank : ranks) rank.processors = 4;
  EXPECT_TRUE(HostWarnings(t, BackendKind::kCpu, ranks).empty());
  t.threads_per_worker = 16;
  ASSERT_EQ(HostWarnings(t, BackendKind::kCpu, ranks).size(), 1);
  EXPECT_NE(HostWarnings(t, BackendKind::kCpu, ranks)[0].find("32 threads, and may use 4 processors"),
            std::string::npos);
}

TEST(PoolSizingTest, NumBlocks_LeaveRoomForSwapSpace) {
  Topology t;
  t.cache.memory = 0.5;
  t.cache.host_swap_bytes = 100 * kMiB;
  EXPECT_EQ(SizedBlocks(t, BackendKind::kCpu, 400 * kMiB), 25) << "half of what swap space leaves of each half";
}

TEST(PoolSizingTest, NumBlocks_LeaveRoomForWhatStepsTake_InEachRank) {
  Topology t;
  t.cache.memory = 0.5;
  std::vector<RankInfo> ranks = Ranks(400 * kMiB);
  for (RankInfo& rank : ranks)
    rank.working = {.process_bytes = 90 * kMiB, .step_bytes = 60 * kMiB, .file_bytes = 40 * kMiB};
  EXPECT_EQ(ChoosePools(t, BackendKind::kCpu, ranks, {.max_model_len = 1 << 20}).num_blocks, 25)
      << "half of what steps and files leave of each half; the process was there when the free memory was read";
}

TEST(PoolSizingTest, WhatWorkersTakeBesideWeightsAndBlocks_CountsAgainstTheHostsLimit) {
  Topology t;
  t.cache.memory_bytes = 3 * kGiB;
  std::vector<RankInfo> ranks = LimitedRanks(10 * kGiB, 8 * kGiB, kGiB);
  EXPECT_EQ(Refusal(t, BackendKind::kCpu, ranks), "");
  ranks[0].working.step_bytes = kGiB, ranks[0].working.process_bytes = kGiB;
  EXPECT_EQ(Refusal(t, BackendKind::kCpu, ranks), "");
  ranks[1].working.file_bytes = 1;
  EXPECT_NE(
      Refusal(t, BackendKind::kCpu, ranks).find("2.0 GiB of weights + 6.0 GiB of KV cache + 2.0 GiB of processes"),
      std::string::npos);
}

TEST(PoolSizingTest, SizesAndMemoryOfSteps_CauseAWarning_WhenTogetherTheyExceedTheFreeMemory) {
  Topology t;
  t.cache.memory_bytes = kGiB;
  std::vector<RankInfo> ranks = Ranks(5 * kGiB / 2);
  EXPECT_TRUE(HostWarnings(t, BackendKind::kCpu, ranks).empty());
  for (RankInfo& rank : ranks) rank.working = {.process_bytes = kGiB, .step_bytes = kGiB / 2};
  ASSERT_EQ(HostWarnings(t, BackendKind::kCpu, ranks).size(), 1);
  EXPECT_NE(HostWarnings(t, BackendKind::kCpu, ranks)[0].find("may take 3.0 GiB, and 2.5 GiB are free"),
            std::string::npos);
}

TEST(PoolSizingTest, ChoosePools_NamesTheRemedy_WhenNoBlockFits) {
  Topology t;
  t.cache.memory_bytes = 3 * kMiB;
  try {
    SizedBlocks(t, BackendKind::kCpu, kGiB);
    FAIL() << "one block, and that is the null block";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("raise --kv-cache-memory-bytes"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace quire

// Tests of the coordinator's WorkerGroup over real sockets; the test plays the ranks.
#include "coordinator/cluster/group/worker_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "tests/support/temporary_directory.h"

namespace quire {
namespace {

using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr int kGroupRanks = 3;
constexpr auto kPatience = std::chrono::seconds(30);

/// Ranks that have joined the group and were sent the plan of step 1.
class WorkerGroupTest : public testing::Test {
 protected:
  WorkerGroupTest() {
    for (Rank rank = 0; rank < kGroupRanks; ++rank) {
      ranks_.push_back(Channel::Connect(group_.data_endpoint(), WorkerIdentity(1, rank)));
      const JoinMessage join{.build = kBuildVersion,
                             .host = "host" + std::to_string(rank),
                             .pid = 100 + rank,
                             .rank = rank,
                             .world_size = kGroupRanks};
      EXPECT_TRUE(ranks_.back().Send("", Encode(join, 1, 0)));
    }
    group_.AwaitJoined(kPatience);
    StepPlan plan;
    plan.epoch = plan.step = 1;
    plan.added = {{0, 2, 0, {5, 6}, {1}, {}}};
    plan.chunks = {{0, 0, 2}};
    group_.SendStep(plan);
  }

  /// Receives the plan of a rank; returns the plan's hash.
  uint64_t ReceivePlan(Rank rank) {
    Channel* channel = &ranks_[static_cast<size_t>(rank)];
    for (const auto deadline = Clock::now() + kPatience; Clock::now() < deadline;) {
      if (const auto received = channel->TryReceive()) {
        EXPECT_EQ(received->frame.header.kind, FrameKind::kPlan);
        return received->frame.header.body_hash;
      }
      Channel::Wait({&channel, 1}, -1, 100);
    }
    ADD_FAILURE() << "rank " << rank << " got no plan";
    return 0;
  }

  /// Sends a rank's answer to step 1 with this token. As in real ranks, only rank 0 sends the tokens themselves.
  void Answer(Rank rank, TokenId token) {
    StepResult result{1, 1, rank, ReceivePlan(rank), 0, 10, 0, {{0, token, 0, {}}}};
    result.token_hash = HashTokens(result.tokens);
    if (rank != 0) result.tokens.clear();
    EXPECT_TRUE(ranks_[static_cast<size_t>(rank)].Send("", EncodeResult(result)));
  }

  TemporaryDirectory directory_;
  WorkerGroup group_{{.ranks = {.size = kGroupRanks},
                      .data_endpoint = "ipc://" + directory_ / "data",
                      .ctrl_endpoint = "ipc://" + directory_ / "data.ctrl"}};
  std::vector<Channel> ranks_;
};

TEST_F(WorkerGroupTest, AwaitStep_ReturnsTheTokens_WhenAllRanksAgree) {
  for (const Rank rank : {2, 0, 1}) Answer(rank, 7);
  EXPECT_EQ(group_.AwaitStep().tokens.at(0).token, 7);
}

TEST_F(WorkerGroupTest, AwaitStepFor_ReturnsNothing_WhileARankHasNotAnswered) {
  for (const Rank rank : {2, 0}) Answer(rank, 7);
  EXPECT_FALSE(group_.AwaitStepFor(std::chrono::milliseconds(0)));
  EXPECT_FALSE(group_.AwaitStepFor(std::chrono::milliseconds(50)));
  Answer(1, 7);
  EXPECT_EQ(group_.AwaitStepFor(kPatience)->tokens.at(0).token, 7);
}

TEST_F(WorkerGroupTest, AwaitStep_Throws_AndNamesARankThatDrewAnotherToken) {
  for (const Rank rank : {0, 1, 2}) Answer(rank, rank == 2 ? 8 : 7);
  try {
    group_.AwaitStep();
    FAIL() << "tokens came back that not all ranks drew";
  } catch (const GroupFailure& failure) {
    EXPECT_EQ(failure.cause, LossCause::kDisagreed);
    EXPECT_EQ(failure.rank, 2);
    EXPECT_EQ(failure.host, "host2");
    EXPECT_THAT(failure.what(), HasSubstr("rank 2 (pid 102 on host2) drew other tokens than rank 0 in step 1"));
  }
}

/// A group whose rank 2 says in its heartbeats that it is idle, although it owes the answer to step 1.
class LostFrameTest : public WorkerGroupTest {
 protected:
  /// Sends heartbeats of rank 2 until the group fails or `time` is over. `beat` makes the next heartbeat; its argument
  /// is the time since the first heartbeat. Returns the text of the failure, or "" if the group did not fail.
  std::string FailureWithin(Clock::duration time, const std::function<BeatMessage(Clock::duration)>& beat) {
    Channel beats = Channel::Connect("ipc://" + directory_ / "data.ctrl", WorkerIdentity(1, 2));
    try {
      for (const auto begin = Clock::now(); Clock::now() - begin < time;) {
        EXPECT_TRUE(beats.Send("", Encode(beat(Clock::now() - begin), 1, 0)));
        EXPECT_FALSE(group_.AwaitStepFor(std::chrono::milliseconds(50)));
      }
    } catch (const GroupFailure& failure) {
      EXPECT_EQ(failure.rank, 2);
      return failure.what();
    }
    return "";
  }
};

TEST_F(LostFrameTest, RankThatStaysIdle_HasLostAFrame) {
  EXPECT_THAT(FailureWithin(kPatience, [](auto) { return BeatMessage(); }),
              HasSubstr("rank 2 (pid 102 on host2) is idle, but step 1 is not answered: a frame was lost"));
}

TEST_F(LostFrameTest, RankThatWaitedForACoreMeanwhile_HasNotLostAFrame) {
  const auto starved = [](Clock::duration passed) {
    const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(passed).count();
    return BeatMessage{.starved_micros = 1'000'000'000 + micros};
  };
  EXPECT_EQ(FailureWithin(std::chrono::seconds(2), starved), "");
  for (const Rank rank : {2, 0, 1}) Answer(rank, 7);
  EXPECT_EQ(group_.AwaitStep().tokens.at(0).token, 7);
}

TEST_F(LostFrameTest, RankThatWaitedForACoreEarlier_HasLostAFrame) {
  EXPECT_THAT(FailureWithin(kPatience, [](auto) { return BeatMessage{.starved_micros = 1'000'000'000}; }),
              HasSubstr("a frame was lost"));
}

TEST_F(LostFrameTest, RankOfAHostThatWakesThreadsLate_HasNotLostAFrame) {
  EXPECT_EQ(FailureWithin(std::chrono::seconds(2), [](auto) { return BeatMessage{.late_micros = 2'000'000}; }), "");
}

/// A listener of the group and its launcher that records all calls.
class Notes : public WorkerGroupListener, public LauncherWatch {
 public:
  bool Stopping() override { return stopping; }
  void WhileWaiting() override { ++rounds; }
  void OnBlocksReport(Rank rank, const BlocksReport& report) override {
    told.push_back(fmt::format("rank {}: blocks of {}", rank, report.ticket));
  }
  void OnAdapterReady(Rank rank, const AdapterReady& report) override {
    told.push_back(fmt::format("rank {}: adapter {}", rank, report.ticket));
  }
  void OnGrammarReady(Rank rank, const GrammarReady& report) override {
    told.push_back(fmt::format("rank {}: grammar {}", rank, report.ticket));
  }
  void CheckLauncher() override {
    if (launcher_ended) throw GroupFailure(LossCause::kDied, 1, "host1", "mpirun ended");
  }

  bool stopping = false, launcher_ended = false;
  int rounds = 0;
  std::vector<std::string> told;
};

/// A group that no rank has joined, with a listener that records all calls.
class ListenerTest : public testing::Test {
 protected:
  /// Waits until the group fails, and returns the cause.
  LossCause CauseOfEnd() {
    try {
      for (;;) group_.Idle(-1, 10);
    } catch (const GroupFailure& failure) {
      return failure.cause;
    }
  }

  TemporaryDirectory directory_;
  Notes notes_;
  WorkerGroup group_{{.ranks = {.size = 1},
                      .data_endpoint = "ipc://" + directory_ / "data",
                      .ctrl_endpoint = "ipc://" + directory_ / "data.ctrl"},
                     &notes_};
};

TEST_F(ListenerTest, WaitsForRanks_End_WhenTheListenerStopsOrTheLauncherHasEnded) {
  group_.Idle(-1, 10);
  EXPECT_EQ(notes_.rounds, 0) << "nobody listens yet";
  group_.set_listener(&notes_);
  group_.Idle(-1, 10);
  EXPECT_EQ(notes_.rounds, 1);
  notes_.stopping = true;
  EXPECT_EQ(CauseOfEnd(), LossCause::kStopping);
  notes_.stopping = false;
  notes_.launcher_ended = true;
  EXPECT_EQ(CauseOfEnd(), LossCause::kDied);
}

TEST_F(ListenerTest, SilenceOfARank_IsToleratedLonger_BeforeItsFirstHeartbeat) {
  Channel rank = Channel::Connect(group_.data_endpoint(), WorkerIdentity(1, 0));
  EXPECT_TRUE(
      rank.Send("", Encode(JoinMessage{.build = kBuildVersion, .host = "host0", .pid = 1, .world_size = 1}, 1, 0)));
  group_.AwaitJoined(kPatience);
  std::thread loading([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));  // as if the connection waited behind others
    EXPECT_TRUE(rank.Send("", Encode(HelloMessage{.isa = "avx2", .bytes_per_block = 1}, 1, 0)));
  });
  EXPECT_NO_THROW(group_.Load({}));
  loading.join();
  Channel beats = Channel::Connect("ipc://" + directory_ / "data.ctrl", WorkerIdentity(1, 0));
  EXPECT_TRUE(beats.Send("", Encode(BeatMessage{}, 1, 0)));
  EXPECT_EQ(CauseOfEnd(), LossCause::kSilent) << "after a beat silence is a failure within 1.5 s";
}

TEST_F(ListenerTest, Reports_ReachTheListener_UnlessTheyComeFromAnotherEpoch) {
  group_.set_listener(&notes_);
  Channel rank = Channel::Connect(group_.data_endpoint(), WorkerIdentity(1, 0));
  EXPECT_TRUE(rank.Send("", Encode(BlocksReport{.ticket = 5, .state = BlocksReport::kDone}, 1, 0)));
  EXPECT_TRUE(rank.Send("", Encode(GrammarReady{6, ""}, 1, 0)));
  EXPECT_TRUE(rank.Send("", Encode(GrammarReady{7, ""}, 2, 0)));  // a report of another epoch
  EXPECT_TRUE(rank.Send("", Encode(GrammarReady{8, ""}, 1, 0)));
  EXPECT_TRUE(rank.Send("", Encode(AdapterReady{9, ""}, 1, 0)));
  for (const auto deadline = Clock::now() + kPatience; notes_.told.size() < 4 && Clock::now() < deadline;)
    group_.Idle(-1, 10);
  EXPECT_THAT(notes_.told, testing::ElementsAre("rank 0: blocks of 5", "rank 0: grammar 6", "rank 0: grammar 8",
                                                "rank 0: adapter 9"));
}

}  // namespace
}  // namespace quire

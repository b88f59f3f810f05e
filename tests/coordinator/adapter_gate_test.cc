// Tests of AdapterGate, which loads LoRA adapters on all ranks of a group while it serves, and drops them again.
#include "coordinator/cluster/group/adapter_gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "tests/support/collecting_sink.h"
#include "tests/support/temporary_directory.h"

namespace quire {
namespace {

using Clock = std::chrono::steady_clock;
using testing::HasSubstr;

constexpr int kRanksOfGate = 2;
constexpr int kAdapter = kMostListedAdapters + 7;

/// An AdapterGate between an engine and a group of ranks; the test plays the ranks.
class AdapterGateTest : public testing::Test, private WorkerGroupListener {
 protected:
  AdapterGateTest() {
    for (Rank rank = 0; rank < kRanksOfGate; ++rank) {
      ranks_.push_back(Channel::Connect(group_.data_endpoint(), WorkerIdentity(1, rank)));
      const JoinMessage join{
          .build = kBuildVersion, .host = "host", .pid = 100 + rank, .rank = rank, .world_size = kRanksOfGate};
      EXPECT_TRUE(ranks_.back().Send("", Encode(join, 1, 0)));
    }
    group_.AwaitJoined(std::chrono::seconds(30));
    group_.set_listener(this);
    engine_.StartEpoch(1);
  }

  bool Stopping() override { return false; }
  void WhileWaiting() override {}
  void OnBlocksReport(Rank, const BlocksReport&) override {}
  void OnGrammarReady(Rank, const GrammarReady&) override {}
  void OnAdapterReady(Rank rank, const AdapterReady& report) override { gate_.OnReady(rank, report); }

  void Load(uint64_t ticket) {
    gate_.Load(
        {ticket, kAdapter, "a", "/a", "hash", 99},
        [this](const std::string& problem, int64_t bytes) { done_.emplace_back(problem, bytes); },
        [this](const std::string& problem) { lost_.push_back(problem); });
  }
  AdapterMessage Receive(Rank rank) {
    Channel* channel = &ranks_[static_cast<size_t>(rank)];
    for (const auto deadline = Clock::now() + std::chrono::seconds(30); Clock::now() < deadline;) {
      if (const auto received = channel->TryReceive()) return std::get<AdapterMessage>(Decode(received->frame));
      Channel::Wait({&channel, 1}, -1, 100);
    }
    ADD_FAILURE() << "rank " << rank << " was told nothing";
    return {};
  }
  /// Receives the next message on both ranks, expects the same ticket and path in both messages, and returns rank 0's
  /// message.
  AdapterMessage Told() {
    const AdapterMessage first = Receive(0), second = Receive(1);
    EXPECT_EQ(first.ticket, second.ticket);
    EXPECT_EQ(first.path, second.path);
    return first;
  }
  void Answer(Rank rank, uint64_t ticket, const std::string& problem = "", uint64_t bytes = 10) {
    EXPECT_TRUE(ranks_[static_cast<size_t>(rank)].Send("", Encode(AdapterReady{ticket, problem, bytes}, 1, 0)));
  }
  void Rounds(int count = 20) {
    for (int i = 0; i < count; ++i) {
      group_.Idle(-1, 5);
      gate_.Round(engine_);
    }
  }
  /// Runs rounds until `holds` returns true; fails after 3,000 rounds.
  template <class F>
  void RoundsUntil(F holds) {
    for (int i = 0; i < 3000 && !holds(); ++i) Rounds(1);
    EXPECT_TRUE(holds());
  }
  void Bring(uint64_t ticket) {
    Load(ticket);
    gate_.Round(engine_);
    Told();
    for (Rank rank = 0; rank < kRanksOfGate; ++rank) Answer(rank, ticket);
    RoundsUntil([&] { return engine_.HasAdapter(kAdapter); });
  }
  void Submit(RequestId id) {
    auto request = test::MakeRequest(id, {1, 2}, 2, sink_);
    request->adapter = kAdapter;
    EXPECT_FALSE(engine_.Submit(std::move(request)));
  }

  TemporaryDirectory directory_;
  WorkerGroup group_{{.ranks = {.size = kRanksOfGate},
                      .data_endpoint = "ipc://" + directory_ / "data",
                      .ctrl_endpoint = "ipc://" + directory_ / "data.ctrl"}};
  std::vector<Channel> ranks_;
  Engine engine_{{.blocks = {.num_blocks = 4, .block_size = 4}, .max_model_len = 8}};
  AdapterGate gate_{group_};
  std::vector<std::pair<std::string, int64_t>> done_;
  std::vector<std::string> lost_;
  test::CollectingSink sink_;
};

TEST_F(AdapterGateTest, Requests_EnterTheEngine_WhenEveryRankHasTheAdapter) {
  Submit(1);
  Load(1);
  gate_.Round(engine_);
  const AdapterMessage told = Told();
  EXPECT_EQ(told.number, kAdapter);
  EXPECT_EQ(told.path, "/a");
  EXPECT_EQ(told.fingerprint, "hash");
  EXPECT_EQ(told.file_bytes, 99u);
  Answer(0, 1);
  Answer(0, 1);
  Rounds();
  EXPECT_TRUE(done_.empty()) << "rank 1 has not answered";
  EXPECT_EQ(engine_.NextPlan(0), nullptr);
  Answer(1, 1, "", 30);
  RoundsUntil([&] { return !done_.empty(); });
  EXPECT_EQ(done_, (std::vector<std::pair<std::string, int64_t>>{{"", 30}}));
  const StepPlan* plan = engine_.NextPlan(0);
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan->added.at(0).adapter, kAdapter);
}

TEST_F(AdapterGateTest, Adapter_IsDroppedByAllRanks_WhenOneRankCannotReadTheAdapter) {
  Submit(1);
  Load(1);
  gate_.Round(engine_);
  Told();
  Answer(0, 1);
  Answer(1, 1, "no such file");
  RoundsUntil([&] { return !done_.empty(); });
  EXPECT_THAT(done_.at(0).first, HasSubstr("rank 1: no such file"));
  EXPECT_EQ(Told().path, "") << "rank 0 drops it again";
  EXPECT_FALSE(engine_.HasAdapter(kAdapter));
  EXPECT_EQ(engine_.NextPlan(0), nullptr);
  EXPECT_TRUE(lost_.empty());
}

TEST_F(AdapterGateTest, Unload_RemovesTheAdapterFromEngineAndRanks_OnlyWithItsTicket) {
  Bring(1);
  gate_.Unload(5);
  Rounds(3);
  EXPECT_TRUE(engine_.HasAdapter(kAdapter));
  gate_.Unload(1);
  Rounds(1);
  EXPECT_FALSE(engine_.HasAdapter(kAdapter));
  const AdapterMessage told = Told();
  EXPECT_EQ(told.ticket, 1u);
  EXPECT_EQ(told.path, "");
  Bring(2);
}

TEST_F(AdapterGateTest, Unload_EndsALoad_WhoseAnswersAreStillMissing) {
  Load(1);
  gate_.Round(engine_);
  Told();
  gate_.Unload(1);
  Rounds(1);
  EXPECT_EQ(Told().path, "");
  ASSERT_EQ(done_.size(), 1u);
  EXPECT_NE(done_[0].first, "");
  for (Rank rank = 0; rank < kRanksOfGate; ++rank) Answer(rank, 1);
  Rounds();
  EXPECT_FALSE(engine_.HasAdapter(kAdapter)) << "late answers mean nothing";
}

TEST_F(AdapterGateTest, NewRanks_AreSentTheAdapter_AndItsRequestsWaitForThem) {
  Bring(1);
  Submit(1);
  ASSERT_NE(engine_.NextPlan(0), nullptr);
  engine_.StartEpoch(2);
  EXPECT_EQ(engine_.NextPlan(0), nullptr);
  gate_.Round(engine_);
  EXPECT_EQ(Told().path, "/a");
  Answer(0, 1);
  Rounds();
  EXPECT_EQ(engine_.NextPlan(0), nullptr) << "answers to the lost ranks' question count no more";
  Answer(1, 1);
  RoundsUntil([&] { return engine_.HasAdapter(kAdapter); });
  EXPECT_NE(engine_.NextPlan(0), nullptr);
  EXPECT_EQ(done_.size(), 1u);
}

TEST_F(AdapterGateTest, Requests_EndWithAnError_WhenNewRanksCannotReadTheirAdapter) {
  Bring(1);
  Submit(1);
  engine_.StartEpoch(2);
  gate_.Round(engine_);
  Told();
  Answer(0, 1, "gone");
  Answer(1, 1);
  RoundsUntil([&] { return !lost_.empty(); });
  EXPECT_THAT(lost_.at(0), HasSubstr("gone"));
  EXPECT_TRUE(engine_.idle());
  Submit(2);  // this request was on its way to the engine when the adapter was lost
  Rounds(1);
  EXPECT_TRUE(engine_.idle());
  Told();  // the ranks drop the adapter
  Bring(3);
  Submit(3);
  Rounds(1);
  EXPECT_FALSE(engine_.idle()) << "it was loaded again";
}

}  // namespace
}  // namespace quire

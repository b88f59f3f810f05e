#include "coordinator/cluster/grammar_gate.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/support/temporary_directory.h"

namespace quire {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRanks = 2;
const GrammarSource kFirst = {GrammarSource::kRegex, "a"}, kSecond = {GrammarSource::kRegex, "b"};

/// A gate before a group of ranks that the test plays itself.
class GrammarGateTest : public testing::Test {
 protected:
  GrammarGateTest() {
    for (Rank rank = 0; rank < kRanks; ++rank) {
      ranks_.push_back(Channel::Connect(group_.data_endpoint(), WorkerIdentity(1, rank)));
      JoinMessage join{kBuildVersion, "host", 100 + rank, rank, kRanks, 0, ""};
      EXPECT_TRUE(ranks_.back().Send("", Encode(join, 1, 0)));
    }
    group_.AwaitJoined(std::chrono::seconds(30));
    engine_.StartEpoch(1);
  }

  GrammarMessage Receive(Rank rank) {
    Channel* channel = &ranks_[static_cast<size_t>(rank)];
    for (const auto deadline = Clock::now() + std::chrono::seconds(30); Clock::now() < deadline;) {
      if (const auto received = channel->TryReceive()) return std::get<GrammarMessage>(Decode(received->frame));
      Channel::Wait({&channel, 1}, -1, 100);
    }
    ADD_FAILURE() << "rank " << rank << " was not asked";
    return {};
  }
  void Answer(Rank rank, uint64_t ticket) {
    EXPECT_TRUE(ranks_[static_cast<size_t>(rank)].Send("", Encode(GrammarReady{ticket, ""}, 1, 0)));
  }
  /// Rounds for a while, or until so many came through.
  int Rounds(int expected) {
    for (const auto deadline = Clock::now() + std::chrono::milliseconds(expected > through_ ? 30000 : 200);
         Clock::now() < deadline && through_ < expected;) {
      group_.Idle(-1, 10);
      gate_.Round(engine_);
    }
    return through_;
  }
  std::function<void(Engine&)> Count() {
    return [this](Engine&) { ++through_; };
  }

  TemporaryDirectory directory_;
  WorkerGroup group_{{.data_endpoint = "ipc://" + directory_ / "data",
                      .ctrl_endpoint = "ipc://" + directory_ / "data.ctrl",
                      .size = kRanks}};
  std::vector<Channel> ranks_;
  Engine engine_{{.blocks = {.num_blocks = 4, .block_size = 4}, .max_model_len = 8}};
  GrammarGate gate_{group_};
  int through_ = 0;
};

TEST_F(GrammarGateTest, RequestsGoThroughWhenEveryRankIsReady) {
  gate_.Pass(kFirst, Count());
  gate_.Pass(kSecond, Count());
  gate_.Pass(kFirst, Count());
  gate_.Round(engine_);
  const GrammarMessage first = Receive(0), second = Receive(0);
  EXPECT_EQ(first.source, kFirst) << "asked once for both";
  EXPECT_EQ(second.source, kSecond);
  EXPECT_EQ(Receive(1).ticket, first.ticket);
  Answer(0, first.ticket);
  Answer(0, first.ticket);
  Answer(1, second.ticket);
  for (int i = 0; i < 20; ++i) {
    group_.Idle(-1, 10);
    gate_.Round(engine_);
  }
  EXPECT_EQ(through_, 0) << "each waits for another rank";
  Answer(1, first.ticket);
  EXPECT_EQ(Rounds(2), 2);
  Answer(0, second.ticket);
  EXPECT_EQ(Rounds(3), 3);
}

TEST_F(GrammarGateTest, OtherRanksAreNotWaitedFor) {
  gate_.Pass(kFirst, Count());
  gate_.Round(engine_);
  EXPECT_EQ(through_, 0);
  engine_.StartEpoch(2);
  gate_.Round(engine_);
  EXPECT_EQ(through_, 1);
}

TEST_F(GrammarGateTest, NobodyIsLeftBehindWhenItOpens) {
  gate_.Pass(kFirst, Count());
  gate_.Pass(kSecond, Count());
  gate_.Round(engine_);
  gate_.Open(engine_);
  EXPECT_EQ(through_, 2);
}

TEST_F(GrammarGateTest, FewGrammarsAreOnTheirWayAtOnce) {
  for (int i = 0; i < 20; ++i) gate_.Pass({GrammarSource::kRegex, std::to_string(i)}, Count());
  gate_.Round(engine_);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(Receive(0).source.text, std::to_string(i));
  EXPECT_FALSE(ranks_[0].TryReceive());
  for (uint64_t ticket = 1; ticket <= 20; ++ticket) {
    Answer(0, ticket);
    Answer(1, ticket);
    EXPECT_EQ(Rounds(static_cast<int>(ticket)), static_cast<int>(ticket));
  }
}

}  // namespace
}  // namespace quire

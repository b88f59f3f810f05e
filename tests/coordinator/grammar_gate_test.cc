#include "coordinator/cluster/group/grammar_gate.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/support/collecting_sink.h"
#include "tests/support/temporary_directory.h"

namespace quire {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRanks = 2;
const GrammarSource kFirst = {GrammarSource::kRegex, "a"}, kSecond = {GrammarSource::kRegex, "b"};

/// A grammar gate in front of a group of ranks; the test plays the ranks.
class GrammarGateTest : public testing::Test, private WorkerGroupListener {
 protected:
  GrammarGateTest() {
    for (Rank rank = 0; rank < kRanks; ++rank) {
      ranks_.push_back(Channel::Connect(group_.data_endpoint(), WorkerIdentity(1, rank)));
      const JoinMessage join{
          .build = kBuildVersion, .host = "host", .pid = 100 + rank, .rank = rank, .world_size = kRanks};
      EXPECT_TRUE(ranks_.back().Send("", Encode(join, 1, 0)));
    }
    group_.AwaitJoined(std::chrono::seconds(30));
    group_.set_listener(this);
    engine_.StartEpoch(1);
  }

  bool Stopping() override { return false; }
  void WhileWaiting() override {}
  void OnBlocksReport(Rank, const BlocksReport&) override {}
  void OnGrammarReady(Rank rank, const GrammarReady& report) override { gate_.OnReady(rank, report); }
  void OnAdapterReady(Rank, const AdapterReady&) override {}

  GrammarMessage Receive(Rank rank) {
    Channel* channel = &ranks_[static_cast<size_t>(rank)];
    for (const auto deadline = Clock::now() + std::chrono::seconds(30); Clock::now() < deadline;) {
      if (const auto received = channel->TryReceive()) return std::get<GrammarMessage>(Decode(received->frame));
      Channel::Wait({&channel, 1}, -1, 100);
    }
    ADD_FAILURE() << "rank " << rank << " was not asked";
    return {};
  }
  void Answer(Rank rank, uint64_t ticket, uint64_t bytes = 0) {
    EXPECT_TRUE(ranks_[static_cast<size_t>(rank)].Send("", Encode(GrammarReady{ticket, "", bytes}, 1, 0)));
  }
  void AnswerAll(uint64_t ticket, uint64_t bytes) {
    for (Rank rank = 0; rank < kRanks; ++rank) Answer(rank, ticket, bytes);
  }
  /// Runs rounds until rank 0 gets a message; returns the message.
  GrammarMessage Next() {
    for (int i = 0; i < 3000; ++i) {
      group_.Idle(-1, 10);
      gate_.Round(engine_, now_);
      if (const auto received = ranks_[0].TryReceive()) return std::get<GrammarMessage>(Decode(received->frame));
    }
    ADD_FAILURE() << "nothing came";
    return {};
  }
  bool IsTold(int millis = 200) {
    Rounds(through_ + 1, millis);
    return ranks_[0].TryReceive().has_value();
  }
  /// Runs rounds until `expected` requests have passed the gate or `millis` milliseconds are over. Returns how many
  /// requests have passed.
  int Rounds(int expected, int millis = 30000) {
    for (const auto deadline = Clock::now() + std::chrono::milliseconds(millis);
         Clock::now() < deadline && through_ < expected;) {
      group_.Idle(-1, 10);
      gate_.Round(engine_, now_);
    }
    return through_;
  }
  /// Returns an arrival of one request. Its `submit` gives the request to the engine, unless EndAll was called.
  Arrival Count() {
    const auto id = static_cast<RequestId>(++calls_);
    return {.submit =
                [this, id](Engine& engine) {
                  ++through_;
                  if (!end_at_once_) engine.Submit(test::MakeRequest(id, {1, 2}, 2, sink_));
                },
            .refuse = [this](int status, const std::string&) { refused_.push_back(status); },
            .abandoned = [this] { return abandoned_; },
            .requests = {id}};
  }
  void EndAll() {
    end_at_once_ = true;
    for (int id = 1; id <= calls_; ++id) engine_.Cancel(static_cast<RequestId>(id));
  }
  static GrammarSource Numbered(int number) { return {GrammarSource::kRegex, std::to_string(number)}; }

  TemporaryDirectory directory_;
  WorkerGroup group_{{.ranks = {.size = kRanks},
                      .data_endpoint = "ipc://" + directory_ / "data",
                      .ctrl_endpoint = "ipc://" + directory_ / "data.ctrl"}};
  std::vector<Channel> ranks_;
  Engine engine_{{.blocks = {.num_blocks = 4, .block_size = 4}, .max_model_len = 8}};
  GrammarGate gate_{group_};
  double now_ = 100;  // seconds on the gate's clock
  int through_ = 0;
  std::vector<int> refused_;  // the HTTP statuses of refused requests
  bool abandoned_ = false, end_at_once_ = false;
  int calls_ = 0;
  test::CollectingSink sink_;
};

TEST_F(GrammarGateTest, Requests_PassTheGate_WhenEveryRankHasCompiledTheGrammar) {
  gate_.Pass("a", kFirst, Count());
  gate_.Pass("a", kSecond, Count());
  gate_.Pass("a", kFirst, Count());
  gate_.Round(engine_, now_);
  const GrammarMessage first = Receive(0);
  EXPECT_EQ(first.source, kFirst) << "asked once for both";
  EXPECT_EQ(Receive(1).ticket, first.ticket);
  Answer(0, first.ticket);
  Answer(0, first.ticket);
  for (int i = 0; i < 20; ++i) {
    group_.Idle(-1, 10);
    gate_.Round(engine_, now_);
  }
  EXPECT_EQ(through_, 0) << "it waits for the other rank";
  Answer(1, first.ticket);
  EXPECT_EQ(Rounds(2), 2);
  const GrammarMessage second = Next();
  EXPECT_EQ(second.source, kSecond);
  AnswerAll(second.ticket, 0);
  EXPECT_EQ(Rounds(3), 3);
}

TEST_F(GrammarGateTest, Gate_SendsTheGrammarAgain_ToTheRanksOfANewEpoch) {
  gate_.Pass("a", kFirst, Count());
  gate_.Round(engine_, now_);
  const uint64_t lost = Receive(0).ticket;
  engine_.StartEpoch(2);
  gate_.Round(engine_, now_);
  const GrammarMessage again = Receive(0);
  EXPECT_EQ(again.source, kFirst);
  EXPECT_NE(again.ticket, lost);
  for (Rank rank = 0; rank < kRanks; ++rank) Answer(rank, lost);
  EXPECT_EQ(Rounds(1, 200), 0);
  for (Rank rank = 0; rank < kRanks; ++rank) Answer(rank, again.ticket);
  EXPECT_EQ(Rounds(1), 1);
}

TEST_F(GrammarGateTest, Requests_LeaveTheEngineAfterANewEpoch_UntilTheNewRanksAreReady) {
  test::CollectingSink first, second;
  gate_.Round(engine_, now_);
  SamplingSpec constrained;
  constrained.grammar = kFirst;
  engine_.Submit(test::MakeRequest(1, {1, 2}, 2, first, 1, constrained));
  engine_.Submit(test::MakeRequest(2, {1, 2}, 2, second));
  gate_.Round(engine_, now_);  // in the first epoch, requests that have passed the gate stay
  EXPECT_EQ(engine_.requests().size(), 2u);
  engine_.StartEpoch(2);
  gate_.Round(engine_, now_);
  EXPECT_FALSE(engine_.requests().contains(1));
  EXPECT_TRUE(engine_.requests().contains(2)) << "it needs no grammar";
  const GrammarMessage asked = Receive(0);
  EXPECT_EQ(asked.source, kFirst);
  AnswerAll(asked.ticket, 0);
  for (int i = 0; i < 3000 && !engine_.requests().contains(1); ++i) {
    group_.Idle(-1, 10);
    gate_.Round(engine_, now_);
  }
  EXPECT_TRUE(engine_.requests().contains(1));
  // The new ranks are not ready in time, so the client gets an error.
  engine_.StartEpoch(3);
  gate_.Round(engine_, now_);
  now_ += 61;
  gate_.Round(engine_, now_);
  EXPECT_NE(first.error, "");
  EXPECT_EQ(second.error, "");
  EXPECT_EQ(engine_.requests().size(), 1u);
}

TEST_F(GrammarGateTest, Request_IsRefused_WhenTheRanksTakeTooLong) {
  gate_.Pass("a", kFirst, Count());
  gate_.Round(engine_, now_);
  now_ += 59;
  gate_.Pass("a", kFirst, Count());
  gate_.Round(engine_, now_);
  EXPECT_TRUE(refused_.empty());
  now_ += 2;
  gate_.Round(engine_, now_);
  EXPECT_EQ(refused_, std::vector<int>{503}) << "the second one has time left";
  const uint64_t ticket = Receive(0).ticket;
  for (Rank rank = 0; rank < kRanks; ++rank) Answer(rank, ticket);
  EXPECT_EQ(Rounds(1), 1);
}

TEST_F(GrammarGateTest, Request_IsRefused_WhenARankCannotCompileTheGrammar) {
  gate_.Pass("a", kFirst, Count());
  gate_.Round(engine_, now_);
  const uint64_t ticket = Receive(0).ticket;
  EXPECT_TRUE(ranks_[0].Send("", Encode(GrammarReady{ticket, "no memory"}, 1, 0)));
  Answer(1, ticket);
  for (int i = 0; i < 3000 && refused_.empty(); ++i) {
    group_.Idle(-1, 10);
    gate_.Round(engine_, now_);
  }
  EXPECT_EQ(refused_, std::vector<int>{400});
  EXPECT_EQ(through_, 0);
}

TEST_F(GrammarGateTest, AbandonedRequests_LeaveTheQueue) {
  for (int i = 0; i < 5; ++i) gate_.Pass("a", Numbered(i), Count());
  gate_.Round(engine_, now_);
  const uint64_t first = Receive(0).ticket;
  abandoned_ = true;
  gate_.Round(engine_, now_);
  abandoned_ = false;
  gate_.Pass("a", kFirst, Count());
  AnswerAll(first, 0);
  EXPECT_EQ(Rounds(1, 200), 0);
  const GrammarMessage next = Receive(0);
  EXPECT_EQ(next.source, kFirst) << "the four that waited were never asked for";
  for (Rank rank = 0; rank < kRanks; ++rank) Answer(rank, next.ticket);
  EXPECT_EQ(Rounds(1), 1);
  EXPECT_TRUE(refused_.empty());
}

TEST_F(GrammarGateTest, Gate_ServesClientsInTurns) {
  for (int i = 0; i < 6; ++i) gate_.Pass("a", Numbered(i), Count());
  gate_.Round(engine_, now_);
  gate_.Pass("b", Numbered(100), Count());
  gate_.Pass("b", Numbered(101), Count());
  gate_.Pass("c", Numbered(200), Count());
  std::vector<std::string> asked;
  for (int i = 0; i < 9; ++i) {
    const GrammarMessage message = Receive(0);
    asked.push_back(message.source.text);
    for (Rank rank = 0; rank < kRanks; ++rank) Answer(rank, message.ticket);
    EXPECT_EQ(Rounds(i + 1), i + 1);
  }
  EXPECT_EQ(asked, (std::vector<std::string>{"0", "100", "200", "1", "101", "2", "3", "4", "5"}));
}

TEST_F(GrammarGateTest, Gate_DoesNotSendAGrammarAgain_ThatTheRanksKeep) {
  gate_.Pass("a", kFirst, Count());
  AnswerAll(Next().ticket, 1 << 20);
  EXPECT_EQ(Rounds(1), 1);
  EndAll();
  gate_.Pass("b", kFirst, Count());
  EXPECT_EQ(Rounds(2), 2);
  EXPECT_FALSE(IsTold());
}

TEST_F(GrammarGateTest, Grammars_AreKeptByTheRanks_WhileRequestsNeedThem) {
  constexpr uint64_t kSixth = static_cast<uint64_t>(GrammarMemory().compiled) / 6;
  std::vector<uint64_t> tickets;
  for (int i = 0; i < 3; ++i) {
    gate_.Pass("a", Numbered(i), Count());
    tickets.push_back(Next().ticket);
    AnswerAll(tickets.back(), kSixth);
    EXPECT_EQ(Rounds(i + 1), i + 1);
  }
  gate_.Pass("a", Numbered(3), Count());
  const GrammarMessage fourth = Next();
  AnswerAll(fourth.ticket, kSixth);
  const GrammarMessage put_back = Next();
  EXPECT_EQ(put_back.ticket, fourth.ticket);
  EXPECT_FALSE(put_back.source) << "one client has half of the room already";
  EXPECT_FALSE(IsTold());
  EXPECT_EQ(through_, 3);

  gate_.Pass("b", Numbered(4), Count());
  const GrammarMessage other = Next();
  EXPECT_EQ(other.source, Numbered(4)) << "there is room for somebody else's";
  AnswerAll(other.ticket, kSixth);
  EXPECT_EQ(Rounds(4), 4);

  EndAll();
  const GrammarMessage again = Next();
  EXPECT_EQ(again.source, Numbered(3));
  AnswerAll(again.ticket, kSixth);
  EXPECT_EQ(Rounds(5), 5);
  EXPECT_FALSE(IsTold()) << "five of six parts are kept";
  for (int i = 5; i < 7; ++i) {
    gate_.Pass("a", Numbered(i), Count());
    const GrammarMessage message = Next();
    EXPECT_EQ(message.source, Numbered(i));
    AnswerAll(message.ticket, kSixth);
    EXPECT_EQ(Rounds(i + 1), i + 1);
  }
  const GrammarMessage forgotten = Next();
  EXPECT_EQ(forgotten.ticket, tickets[0]) << "the one that was asked for first";
  EXPECT_FALSE(forgotten.source);
}

TEST_F(GrammarGateTest, LatestRequest_OfAClientBeyondItsShare_LeavesTheEngine_WhenGrammarMemoryIsShort) {
  constexpr uint64_t kEighth = static_cast<uint64_t>(GrammarMemory().compiled) / 8;
  test::CollectingSink sinks[6];
  const auto request = [&](int number) {
    SamplingSpec constrained;
    constrained.grammar = Numbered(number);
    const auto id = static_cast<RequestId>(number);
    auto made = test::MakeRequest(id, {1, 2}, 2, sinks[number - 1], 1, constrained);
    made->client = number <= 2 ? "greedy" : std::to_string(number);
    return made;
  };
  const auto pass = [&](int number, uint64_t bytes) {
    const Arrival arrival{.submit = [&, number](Engine& engine) { engine.Submit(request(number)); },
                          .refuse = [](int, const std::string&) {},
                          .abandoned = [] { return false; },
                          .requests = {static_cast<RequestId>(number)}};
    gate_.Pass(request(number)->client, Numbered(number), arrival);
    const GrammarMessage asked = Next();
    EXPECT_EQ(asked.source, Numbered(number));
    AnswerAll(asked.ticket, bytes);
    for (int i = 0; i < 3000 && !engine_.requests().contains(static_cast<RequestId>(number)); ++i) {
      group_.Idle(-1, 10);
      gate_.Round(engine_, now_);
    }
    EXPECT_TRUE(engine_.requests().contains(static_cast<RequestId>(number)));
    return asked.ticket;
  };
  pass(1, 2 * kEighth);
  const uint64_t second = pass(2, 2 * kEighth);
  pass(3, 2 * kEighth);
  pass(4, kEighth);
  pass(5, kEighth);
  EXPECT_EQ(engine_.requests().size(), 5u) << "all of the room is taken, and nobody had to go";
  pass(6, kEighth);
  EXPECT_FALSE(engine_.requests().contains(2)) << "its client has half of the room and asked for this one last";
  EXPECT_EQ(engine_.requests().size(), 5u);
  const GrammarMessage forgotten = Next();
  EXPECT_EQ(forgotten.ticket, second);
  EXPECT_FALSE(forgotten.source);

  const GrammarMessage again = Next();
  EXPECT_EQ(again.source, Numbered(2)) << "it waits here";
  AnswerAll(again.ticket, 2 * kEighth);
  EXPECT_EQ(Next().ticket, again.ticket) << "there is no room for it now";
  EXPECT_FALSE(IsTold());
  for (const int number : {3, 4, 5}) engine_.Cancel(static_cast<RequestId>(number));
  const GrammarMessage at_last = Next();
  EXPECT_EQ(at_last.source, Numbered(2));
  AnswerAll(at_last.ticket, 2 * kEighth);
  for (int i = 0; i < 3000 && !engine_.requests().contains(2); ++i) {
    group_.Idle(-1, 10);
    gate_.Round(engine_, now_);
  }
  EXPECT_TRUE(engine_.requests().contains(2));
  for (const test::CollectingSink& sink : {std::cref(sinks[0]), std::cref(sinks[1]), std::cref(sinks[5])})
    EXPECT_EQ(sink.error, "");
}

TEST_F(GrammarGateTest, Grammar_IsRefused_WhenItTakesMoreThanHalfOfTheMemory) {
  constexpr uint64_t kHalf = static_cast<uint64_t>(GrammarMemory().compiled) / 2;
  gate_.Pass("a", kFirst, Count());
  AnswerAll(Next().ticket, kHalf);
  EXPECT_EQ(Rounds(1), 1);
  gate_.Pass("b", kSecond, Count());
  const uint64_t second = Next().ticket;
  AnswerAll(second, kHalf + 1);
  const GrammarMessage forgotten = Next();
  EXPECT_EQ(forgotten.ticket, second);
  EXPECT_FALSE(forgotten.source);
  EXPECT_EQ(refused_, std::vector<int>{400});
  EXPECT_EQ(through_, 1);
}

TEST_F(GrammarGateTest, UnusedGrammar_IsForgotten_WhenGrammarMemoryIsShort) {
  constexpr uint64_t kThird = static_cast<uint64_t>(GrammarMemory().compiled) / 3;
  std::vector<uint64_t> tickets;
  for (int i = 0; i < 4; ++i) {
    gate_.Pass(std::string(1, static_cast<char>('a' + i)), Numbered(i), Count());
    tickets.push_back(Next().ticket);
    AnswerAll(tickets.back(), i < 3 ? kThird : kThird / 2);
    EXPECT_EQ(Rounds(i + 1), i + 1);
    if (i == 1) engine_.Cancel(2);
  }
  const GrammarMessage forgotten = Next();
  EXPECT_EQ(forgotten.ticket, tickets[1]) << "the first one's request goes on";
  EXPECT_FALSE(forgotten.source);
  EXPECT_FALSE(IsTold());
}

TEST_F(GrammarGateTest, Open_LetsEveryWaitingRequestThrough) {
  gate_.Pass("a", kFirst, Count());
  gate_.Pass("a", kSecond, Count());
  gate_.Round(engine_, now_);
  gate_.Open(engine_);
  EXPECT_EQ(through_, 2);
}

TEST_F(GrammarGateTest, Gate_SendsOneGrammarAtATime) {
  for (int i = 0; i < 20; ++i) gate_.Pass("a", Numbered(i), Count());
  gate_.Round(engine_, now_);
  EXPECT_EQ(Receive(0).source.text, "0");
  EXPECT_FALSE(ranks_[0].TryReceive());
  for (uint64_t ticket = 1; ticket <= 20; ++ticket) {
    Answer(0, ticket);
    Answer(1, ticket);
    EXPECT_EQ(Rounds(static_cast<int>(ticket)), static_cast<int>(ticket));
  }
}

}  // namespace
}  // namespace quire

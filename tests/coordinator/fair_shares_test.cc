// Tests the rules by which clients share sequence slots, blocks and steps, one rule in each test. Also tests prompts
// that are computed in slices. The simulator (tests/sim) checks the rules for random sets of clients.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "coordinator/core/engine/engine.h"
#include "tests/support/collecting_sink.h"

namespace quire {
namespace {

using test::CollectingSink;
using test::MakeRequest;

class FairSharesTest : public testing::Test {
 protected:
  static constexpr int kPassStages = 5;

  void Make(int usable_blocks, int max_running, int max_step_tokens, bool plan_ahead = false,
            bool whole_prompts = false) {
    EngineOptions options;
    options.scheduler.max_step_tokens = max_step_tokens;
    options.scheduler.max_running = max_running;
    options.scheduler.lookahead_tokens = 0;
    options.scheduler.preemption = PreemptionMode::kRecompute;
    options.blocks.num_blocks = usable_blocks + 1;
    options.blocks.block_size = 4;
    options.blocks.watermark = 0;
    options.blocks.prefix_caching = false;
    options.max_model_len = 10'000;
    options.plan_ahead = plan_ahead;
    if (whole_prompts) {
      options.scheduler.pass_stages = kPassStages;
      options.scheduler.max_kept_rows = 20'000;
    }
    engine_ = std::make_unique<Engine>(options);
  }

  std::optional<std::string> Submit(RequestId id, const std::string& client, int prompt, int max_tokens, int n = 1,
                                    ClientLimits limits = {}) {
    auto request = MakeRequest(id, std::vector<TokenId>(static_cast<size_t>(prompt), 5), max_tokens, sinks_[id], n);
    request->client = client;
    request->client_limits = limits;
    request->arrival_seconds = static_cast<double>(id);
    return engine_->Submit(std::move(request));
  }

  std::optional<std::string> SubmitBeams(RequestId id, const std::string& client, int width) {
    auto request = MakeRequest(id, std::vector<TokenId>(5, 5), 100, sinks_[id], width);
    request->client = client;
    request->arrival_seconds = static_cast<double>(id);
    request->beams = std::make_unique<BeamSearch>(BeamOptions{width, width}, std::vector<TokenId>(), 100);
    return engine_->Submit(std::move(request));
  }

  const StepPlan* Plan() {
    const StepPlan* plan = engine_->NextPlan(0);
    engine_->scheduler().CheckIntegrity();
    if (plan != nullptr) draws_.push_back(DrawsOf(*plan));
    return plan;
  }
  void Commit(StepTimes times = {}) {
    std::vector<SampledToken> tokens = draws_.front();
    draws_.erase(draws_.begin());
    engine_->CommitStep(tokens, times);
    engine_->scheduler().CheckIntegrity();
  }
  StepPlan Step(StepTimes times = {}) {
    const StepPlan* plan = Plan();
    EXPECT_NE(plan, nullptr);
    if (plan == nullptr) return {};
    const StepPlan copy = *plan;
    Commit(times);
    return copy;
  }

  std::vector<SampledToken> DrawsOf(const StepPlan& plan) const {
    std::vector<SampledToken> out;
    for (const SlotId slot : plan.decodes) out.push_back({slot, 9, 0, top_});
    for (const Chunk& chunk : plan.chunks) {
      for (const Request* request : engine_->scheduler().running()) {
        for (const Sequence& s : request->sequences) {
          if (s.slot != chunk.slot || chunk.start + chunk.count != s.num_tokens()) continue;
          out.push_back({chunk.slot, 9, 0, top_});
          if (request->sampling.pooling != Pooling::kNone) out.back().pooled = {0.5f};
        }
      }
    }
    for (const Slice& slice : plan.slices) {
      if (slice.completes()) out.push_back({slice.slot, 0, 0, {}, {0.5f}});
    }
    return out;
  }

  std::optional<std::string> SubmitText(RequestId id, const std::string& client, int prompt) {
    auto request = MakeRequest(id, std::vector<TokenId>(static_cast<size_t>(prompt), 5), 1, sinks_[id], 1,
                               {.pooling = Pooling::kMean});
    request->client = client;
    request->arrival_seconds = static_cast<double>(id);
    return engine_->Submit(std::move(request));
  }
  /// Returns the plan's slice of the running request's pass; an empty slice if there is none.
  Slice SliceOf(const StepPlan& plan, RequestId id) const {
    for (const Request* request : engine_->scheduler().running()) {
      for (const Slice& slice : plan.slices) {
        if (request->id == id && request->sequences.front().slot == slice.slot) return slice;
      }
    }
    return {};
  }

  bool Runs(RequestId id) const {
    return std::ranges::any_of(engine_->scheduler().running(), [&](const Request* r) { return r->id == id; });
  }
  size_t TokensOf(RequestId id) { return sinks_[id].choices[0].tokens.size(); }
  /// Returns the number of tokens that the step computes for a running request.
  int Computed(const StepPlan& plan, RequestId id) const {
    int tokens = 0;
    for (const Request* request : engine_->scheduler().running()) {
      if (request->id != id) continue;
      for (const Sequence& s : request->sequences) {
        for (const SlotId slot : plan.decodes) tokens += s.slot == slot;
        for (const Chunk& chunk : plan.chunks) tokens += s.slot == chunk.slot ? chunk.count : 0;
      }
    }
    return tokens;
  }

  std::unique_ptr<Engine> engine_;
  std::map<RequestId, CollectingSink> sinks_;
  std::vector<std::vector<SampledToken>> draws_;
  std::vector<std::pair<TokenId, float>> top_;  // the candidates of every sampled token, for beams
};

TEST_F(FairSharesTest, NewClient_RunsInTheNextStep_WhenAllSequenceSlotsAreTaken) {
  Make(1000, 8, 64);
  for (RequestId id = 1; id <= 8; ++id) ASSERT_FALSE(Submit(id, "a", 4, 100));
  Step();
  ASSERT_FALSE(Submit(9, "b", 4, 3));
  Step();
  EXPECT_EQ(TokensOf(9), 1u);
  EXPECT_FALSE(Runs(8)) << "the youngest gives way";
  EXPECT_EQ(engine_->scheduler().num_running(), 8);
  Step();
  Step();
  EXPECT_EQ(TokensOf(9), 3u);
}

TEST_F(FairSharesTest, NewClient_RunsOnceOutstandingStepsEnd_WhenStepsArePlannedAhead) {
  Make(1000, 8, 64, true);
  for (RequestId id = 1; id <= 8; ++id) ASSERT_FALSE(Submit(id, "a", 4, 100));
  Plan();
  ASSERT_NE(Plan(), nullptr);
  ASSERT_FALSE(Submit(9, "b", 4, 3));
  Commit();
  EXPECT_EQ(Plan(), nullptr);
  Commit();
  Step();
  EXPECT_EQ(TokensOf(9), 1u) << "the first plan that was made for it";
}

TEST_F(FairSharesTest, Scheduler_PreemptsNoRequestOfAClient_WithinItsShare) {
  Make(1000, 8, 64);
  for (RequestId id = 1; id <= 4; ++id) ASSERT_FALSE(Submit(id, "a", 4, 100));
  for (RequestId id = 5; id <= 8; ++id) ASSERT_FALSE(Submit(id, "b", 4, 100));
  Step();
  ASSERT_FALSE(Submit(9, "b", 4, 1));
  ASSERT_FALSE(Submit(10, "a", 4, 1));
  for (int i = 0; i < 20; ++i) Step();
  EXPECT_EQ(engine_->scheduler().num_preemptions(), 0);
}

TEST_F(FairSharesTest, NewClient_GetsItsShareOfBlocks_WhenAnotherClientHoldsMore) {
  Make(40, 8, 64);
  ASSERT_FALSE(Submit(1, "a", 60, 60));
  ASSERT_FALSE(Submit(2, "a", 60, 60));
  for (int i = 0; i < 3; ++i) Step();
  ASSERT_EQ(engine_->scheduler().num_running(), 2);  // the two requests hold 32 of 40 blocks
  ASSERT_FALSE(Submit(3, "b", 40, 4));               // needs 10 blocks; the share of client b is 20 blocks
  Step();
  EXPECT_FALSE(Runs(2));
  EXPECT_TRUE(Runs(3));
}

TEST_F(FairSharesTest, ReadmittedRequest_IsNotPreempted_DuringItsProtectedSteps) {
  Make(60'000, 4, 64);
  ASSERT_FALSE(Submit(1, "a", 4, 1000, 4));
  Step();
  Step();
  ASSERT_FALSE(Submit(2, "b", 4, 1));
  Step();
  ASSERT_EQ(TokensOf(2), 1u);
  Step();
  ASSERT_TRUE(Runs(1)) << "nothing of its client ran, so it need not leave room";
  ASSERT_FALSE(Submit(3, "b", 4, 1));
  for (int64_t i = 1; i < Scheduler::kProtectedSteps; ++i) {
    Step();
    ASSERT_TRUE(Runs(1)) << i;
  }
  Step();
  EXPECT_EQ(TokensOf(3), 1u);
}

TEST_F(FairSharesTest, Scheduler_KeepsASequenceSlotFree_ForAClientThatReturnsSoon) {
  Make(60'000, 8, 64);
  ASSERT_FALSE(Submit(1, "a", 4, 1000, 4));
  ASSERT_FALSE(Submit(2, "a", 4, 1000, 4));
  Step();
  Step();
  for (RequestId id = 3; id <= 5; ++id) {
    ASSERT_FALSE(Submit(id, "b", 4, 1));
    Step();
    EXPECT_EQ(TokensOf(id), 1u);
    for (int i = 0; i < 20; ++i) Step();
  }
  EXPECT_EQ(engine_->scheduler().num_preemptions(), 1) << "the place of the first time was kept";
  for (int64_t i = 0; i < Scheduler::kReservedSteps; ++i) Step();
  EXPECT_TRUE(Runs(2)) << "it did not come again";
}

TEST_F(FairSharesTest, ShortPrompt_DoesNotWait_ForALongPromptOfAnotherClient) {
  Make(1000, 8, 64);
  ASSERT_FALSE(Submit(1, "a", 1000, 5));
  Step();
  ASSERT_FALSE(Submit(2, "b", 30, 5));
  const StepPlan plan = Step();
  EXPECT_EQ(TokensOf(2), 1u);
  EXPECT_EQ(Computed(plan, 1), 34) << "what the other one leaves";
}

TEST_F(FairSharesTest, Steps_AreShortAndSequencesOfOneClientTakeTurns_WhenSeveralClientsRun) {
  Make(60'000, 200, 512);
  ASSERT_FALSE(Submit(1, "a", 5, 1000, 190));
  for (int i = 0; i < 20; ++i) Step({1'000'000, 0});  // about 5 ms per token; a step has at least 64 tokens
  ASSERT_FALSE(Submit(2, "b", 10, 1000));
  const auto fewest = [&] {
    size_t tokens = 1000;
    for (int choice = 0; choice < 190; ++choice) tokens = std::min(tokens, sinks_[1].choices[choice].tokens.size());
    return tokens;
  };
  const size_t before = fewest();
  for (int i = 0; i < 19; ++i) {
    const StepPlan plan = Step({320'000, 0});
    EXPECT_EQ(Computed(plan, 1) + Computed(plan, 2), 64);
    EXPECT_GE(Computed(plan, 2), 1);
  }
  EXPECT_EQ(TokensOf(2), 19u);
  EXPECT_GE(fewest(), before + 5) << "19 steps of 63 or 54 tokens for 190 sequences";
}

TEST_F(FairSharesTest, Steps_StayShortForAWhile_AfterAnotherClientLeaves) {
  Make(60'000, 200, 512);
  const auto microseconds = [](int tokens) { return static_cast<uint32_t>(2'000 * tokens); };
  const auto step = [&] {
    const StepPlan* plan = Plan();
    const int tokens = Computed(*plan, 1) + Computed(*plan, 2);
    Commit({microseconds(tokens), 0});
    return tokens;
  };
  ASSERT_FALSE(Submit(1, "a", 9000, 5));
  step();
  EXPECT_EQ(step(), 400) << "0.8 s";
  ASSERT_FALSE(Submit(2, "b", 5, 3));
  while (TokensOf(2) < 3) EXPECT_EQ(step(), 64);
  for (double seconds = 0; seconds < 2.8; seconds += 0.128) EXPECT_EQ(step(), 64) << seconds;
  for (int i = 0; i < 3; ++i) step();
  EXPECT_EQ(step(), 400) << "nobody has come";
}

TEST_F(FairSharesTest, StepAhead_IsShort_WhileAnotherClientsLastTokenIsOutstanding) {
  Make(60'000, 200, 512, true);
  ASSERT_FALSE(Submit(1, "a", 9000, 5));
  Step({1'024'000, 0});
  ASSERT_FALSE(Submit(2, "b", 5, 1));
  const StepPlan* last_of_b = Plan();
  ASSERT_EQ(Computed(*last_of_b, 2), 5);
  const StepPlan* behind = Plan();
  ASSERT_NE(behind, nullptr);
  EXPECT_EQ(Computed(*behind, 2), 0) << "its token is on its way";
  EXPECT_EQ(Computed(*behind, 1), 64) << "it may come again";
}

TEST_F(FairSharesTest, RequestsWithBeams_TakeTurns_WhenSeveralClientsRun) {
  Make(60'000, 200, 512);
  for (TokenId token = 9; token < 29; ++token) top_.emplace_back(token, -0.1F * static_cast<float>(token));
  constexpr RequestId kWithBeams = 8, kOther = 9, kShort = 10;
  for (RequestId id = 1; id <= kWithBeams; ++id) ASSERT_FALSE(SubmitBeams(id, "a", 20));
  const auto of_beams = [&](const StepPlan& plan) {
    int tokens = 0;
    for (RequestId id = 1; id <= kWithBeams; ++id) tokens += Computed(plan, id);
    return tokens;
  };
  for (int i = 0; i < 5; ++i) Step({320'000, 0});  // 2 ms per token
  EXPECT_EQ(of_beams(Step({320'000, 0})), 160) << "of a client alone";
  ASSERT_FALSE(SubmitBeams(kOther, "b", 20));
  ASSERT_FALSE(Submit(kShort, "c", 5, 1000));
  for (int i = 0; i < 3; ++i) Step({128'000, 0});
  std::map<RequestId, int> drawn;
  constexpr int kSteps = 21;
  for (int i = 0; i < kSteps; ++i) {
    const StepPlan plan = Step({128'000, 0});
    EXPECT_EQ(Computed(plan, kShort), 1);
    EXPECT_LE(of_beams(plan) + Computed(plan, kOther), 40) << "the most senior of all, and one more";
    for (RequestId id = 1; id <= kOther; ++id) drawn[id] += Computed(plan, id) / 20;
  }
  EXPECT_EQ(drawn[1], kSteps);
  for (RequestId id = 2; id <= kWithBeams; ++id) EXPECT_GE(drawn[id], 1) << id;
  EXPECT_GE(drawn[kOther], 10) << "the other client's go in turns with all of the first one's";
}

TEST_F(FairSharesTest, EveryRequest_Advances_WhenManyClientsRun) {
  Make(60'000, 200, 512);
  constexpr RequestId kClients = 44, kNewcomer = 100;
  for (RequestId i = 1; i <= kClients; ++i) ASSERT_FALSE(Submit(i, "client " + std::to_string(i), 5, 1000));
  for (int i = 0; i < 20; ++i) Step({128'000, 0});
  for (RequestId i = 1; i <= kClients; ++i) ASSERT_FALSE(Submit(200 + i, "client " + std::to_string(i), 1500, 5));
  for (int i = 0; i < 4; ++i) Step({128'000, 0});
  ASSERT_FALSE(Submit(kNewcomer, "another", 5, 1000));
  std::map<RequestId, int> computed;
  constexpr int kSteps = 40;
  for (int i = 0; i < kSteps; ++i) {
    const StepPlan plan = Step({128'000, 0});
    int all = 0;
    for (const Request* request : engine_->scheduler().running()) {
      const int tokens = Computed(plan, request->id);
      computed[request->id] += tokens;
      all += tokens;
    }
    EXPECT_LE(all, 64);
  }
  EXPECT_GE(TokensOf(kNewcomer), kSteps - 6) << "5 tokens of a prompt, one by one, and then one in each step";
  for (RequestId i = 1; i <= kClients; ++i) {
    EXPECT_GE(computed[i], kSteps / 2 - 1) << "the stream of client " << i;
    EXPECT_GE(computed[200 + i], kSteps / 2 - 1) << "the prompt of client " << i;
  }
}

TEST_F(FairSharesTest, SingleClient_GetsTheWholeStep) {
  Make(60'000, 200, 512);
  ASSERT_FALSE(Submit(1, "a", 4500, 5));
  EXPECT_EQ(Computed(Step({245'000, 0}), 1), 256) << "nothing is known of its speed";
  for (int i = 0; i < 7; ++i) EXPECT_EQ(Computed(Step({490'000, 0}), 1), 512);
}

TEST_F(FairSharesTest, PromptChunks_KeepAMinimum_OnASlowMachine) {
  Make(60'000, 200, 512);
  ASSERT_FALSE(Submit(1, "a", 4000, 5));
  for (int i = 0; i < 8; ++i) EXPECT_EQ(Computed(Step({2'560'000, 0}), 1), 256);
}

/// The simulated machine takes 0.5 ms for a token, and another 0.5 ms for every 1,000 tokens before it.
TEST_F(FairSharesTest, ChunksOfALongPrompt_Shrink_SoThatStepsDoNotTakeLonger) {
  Make(60'000, 200, 512);
  ASSERT_FALSE(Submit(1, "a", 9000, 5));
  const auto longest_of = [&](int steps) {
    double longest = 0;
    StepPlan plan;
    for (int i = 0; i < steps; ++i) {
      const StepPlan* made = Plan();
      if (made == nullptr) return longest;
      double seconds = 0;
      for (const Chunk& chunk : made->chunks)
        seconds += chunk.count * (0.0005 + 5e-7 * (chunk.start + chunk.count / 2.0));
      Commit({static_cast<uint32_t>(seconds * 1e6), 0});
      longest = std::max(longest, seconds);
    }
    return longest;
  };
  longest_of(2);  // the first steps teach the cost model
  EXPECT_LT(longest_of(1000), 1.1) << "512 tokens would take 2.4 s at the end";
  ASSERT_FALSE(Submit(2, "a", 9000, 5));
  longest_of(30);
  ASSERT_FALSE(Submit(3, "b", 100, 1));
  EXPECT_LT(longest_of(4), 0.2);
}

/// Tests with a simulated machine that takes 0.5 ms for a token, and another 6 ms for every 1,000 tokens before it.
class DeepContextTest : public FairSharesTest {
 protected:
  double SecondsOf(const StepPlan& plan) const {
    const auto seconds = [](double context) { return 0.0005 + 6e-6 * context; };
    double sum = 0;
    for (const Chunk& chunk : plan.chunks) sum += chunk.count * seconds(chunk.start + chunk.count / 2.0);
    for (const Request* request : engine_->scheduler().running()) {
      for (const Sequence& s : request->sequences)
        sum += s.slot && std::ranges::find(plan.decodes, *s.slot) != plan.decodes.end() ? seconds(s.length()) : 0;
    }
    return sum;
  }
  /// Runs one step, and returns its seconds.
  double Run() {
    const StepPlan* plan = Plan();
    if (plan == nullptr) return 0;
    const double seconds = SecondsOf(*plan);
    Commit({static_cast<uint32_t>(seconds * 1e6), 0});
    return seconds;
  }
  double LongestOf(int steps) {
    double longest = 0;
    for (int i = 0; i < steps; ++i) longest = std::max(longest, Run());
    return longest;
  }
  /// Makes client "a" run one request with `choices` choices after a prompt of 9,000 tokens: 54 ms for each decode.
  void RunDeepChoices(int choices) {
    Make(80'000, 60, 512);
    ASSERT_EQ(Submit(1, "a", 9000, 900, choices).value_or(""), "");
    while (TokensOf(1) == 0) Run();
  }
};

TEST_F(DeepContextTest, Decodes_TakeTurns_WhenAllWouldTakeTooLong) {
  RunDeepChoices(30);
  Run();
  EXPECT_LT(LongestOf(50), 1.0) << "all 30 would take 1.6 s";
  size_t least = SIZE_MAX, most = 0;
  for (const Sequence& s : engine_->requests().at(1)->sequences) {
    least = std::min(least, s.tokens.size());
    most = std::max(most, s.tokens.size());
  }
  EXPECT_GT(least, 9000u + 12);
  EXPECT_LE(most, least + 50) << "only the most senior one is in every step";
}

TEST_F(DeepContextTest, Steps_StayShort_WhenOneClientDecodesWithLongContexts) {
  RunDeepChoices(30);
  Run();
  for (RequestId id = 2; id < 7; ++id) {
    ASSERT_FALSE(Submit(id, "b", 20, 3));
    const double first = Run(), second = Run();
    EXPECT_LT(std::max(first, second), 0.25) << id;
    EXPECT_GE(TokensOf(id), 1u) << id;
    while (engine_->requests().contains(id)) EXPECT_LT(Run(), 0.25);
  }
}

TEST_F(DeepContextTest, Prompt_GetsItsClientsPartOfTheTime_BesideALongPrompt) {
  Make(80'000, 60, 512);
  ASSERT_FALSE(Submit(1, "a", 9000, 5));
  while (engine_->requests().at(1)->sequences.front().num_computed < 8000) Run();
  ASSERT_FALSE(Submit(2, "b", 400, 5));
  int steps = 0;
  for (; TokensOf(2) == 0; ++steps) EXPECT_LT(Run(), 0.25);
  EXPECT_LE(steps, 14) << "its tokens take 0.7 s, and it has half of each step's tenth of a second";
}

/// The simulated machine takes 5 ms for a step, 1 ms for a token, and another 1 ms for every 2,000 tokens before it.
TEST_F(FairSharesTest, StepsWithDecodes_KeepTheTargetTime_WhilePromptsAreComputed) {
  Make(60'000, 200, 512);
  ASSERT_FALSE(Submit(1, "a", 4, 1000, 3));
  const auto longest_of = [&](int steps, int& chunks) {
    double longest = 0;
    for (int i = 0; i < steps; ++i) {
      const StepPlan* made = Plan();
      EXPECT_EQ(made->decodes.size(), 3u) << "every stream has a token in every step";
      double seconds = 0.005 + 0.001 * static_cast<double>(made->decodes.size());
      for (const Chunk& chunk : made->chunks) {
        seconds += chunk.count * (0.001 + 5e-7 * (chunk.start + chunk.count / 2.0));
        chunks += chunk.count;
      }
      Commit({static_cast<uint32_t>(seconds * 1e6), 0});
      longest = std::max(longest, seconds);
    }
    return longest;
  };
  Step();
  ASSERT_FALSE(Submit(2, "a", 4000, 5));
  int chunks = 0;
  EXPECT_GT(longest_of(3, chunks), 0.3) << "without a target";
  engine_->Cancel(2);
  engine_->ChangeOptions({.target_step_seconds = 0.1});
  ASSERT_FALSE(Submit(3, "a", 4000, 5));
  longest_of(3, chunks = 0);  // the cost model forgets the long steps
  EXPECT_LT(longest_of(40, chunks), 0.1);
  EXPECT_GT(chunks, 40 * 25) << "and the prompt goes on";
  engine_->ChangeOptions({.target_step_seconds = 0.001});
  chunks = 0;
  longest_of(5, chunks);
  EXPECT_EQ(chunks, 5 * 32) << "what there is no time for goes on all the same";
  engine_->ChangeOptions({});
}

TEST_F(FairSharesTest, StepTarget_DoesNotShortenPromptChunks_WithoutDecodes) {
  Make(60'000, 200, 512);
  engine_->ChangeOptions({.target_step_seconds = 0.01});
  ASSERT_FALSE(Submit(1, "a", 4500, 5));
  EXPECT_EQ(Computed(Step({245'000, 0}), 1), 256) << "nothing is known of its speed";
  for (int i = 0; i < 7; ++i) EXPECT_EQ(Computed(Step({490'000, 0}), 1), 512);
}

TEST_F(FairSharesTest, Decodes_DoNotWait_ForALongPromptOfTheSameClient) {
  Make(60'000, 400, 512);
  ASSERT_FALSE(Submit(1, "a", 4, 100, 300));
  Step();
  ASSERT_FALSE(Submit(2, "a", 4000, 5));
  Step({5'000'000, 0});
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Step({5'000'000, 0}).decodes.size(), 300u);
}

TEST_F(FairSharesTest, Decode_DoesNotWait_ForALongerChoiceOfItsRequest_WhenSeveralClientsRun) {
  Make(1000, 8, 64);
  ASSERT_FALSE(Submit(1, "b", 4, 100));
  Step();
  auto request = MakeRequest(2, std::vector<TokenId>(4, 5), 600, sinks_[2], 2);
  request->client = "a";
  request->arrival_seconds = 2;
  request->num_preemptions = 1;
  request->sequences[0].tokens.resize(500, 9);  // the other choice has no generated token yet
  ASSERT_FALSE(engine_->Adopt(request, 0, {}));
  for (int i = 0; i < 6; ++i) Step();
  EXPECT_EQ(sinks_[2].choices[1].tokens.size(), 5u) << "one with every step after that of the prompt";
  EXPECT_TRUE(sinks_[2].choices[0].tokens.empty());
}

TEST_F(FairSharesTest, NewClient_DoesNotWait_UntilALargeRequestFits) {
  Make(60'000, 8, 64);
  ASSERT_FALSE(Submit(1, "a", 4, 1000, 4));
  Step();
  ASSERT_FALSE(Submit(2, "b", 4, 100, 8));  // this request needs all sequence slots
  Step();
  ASSERT_FALSE(Submit(3, "c", 4, 1));
  Step();
  EXPECT_EQ(TokensOf(3), 1u);
  ASSERT_FALSE(Submit(4, "a", 4, 1));
  for (int i = 0; i < 10; ++i) Step();
  EXPECT_EQ(TokensOf(4), 0u) << "but a client that runs something waits for the large one";
}

TEST_F(FairSharesTest, ClientAtItsLimit_DoesNotDelayOtherClients) {
  Make(1000, 8, 64);
  const ClientLimits two{2, 0}, blocks{0, 10};
  for (RequestId id = 1; id <= 3; ++id) ASSERT_FALSE(Submit(id, "a", 4, 50, 1, two));
  ASSERT_FALSE(Submit(4, "b", 4, 29, 1, blocks));  // needs 8 blocks at its full length
  ASSERT_FALSE(Submit(5, "b", 4, 29, 1, blocks));
  ASSERT_FALSE(Submit(6, "c", 4, 5));
  Step();
  EXPECT_TRUE(Runs(1) && Runs(2) && Runs(4) && Runs(6));
  EXPECT_FALSE(Runs(3) || Runs(5));
  const auto clients = engine_->scheduler().Clients();
  EXPECT_EQ(clients.at("a").running_seqs, 2);
  EXPECT_EQ(clients.at("a").waiting, 1);
  EXPECT_EQ(clients.at("a").prompt_tokens, 8);
  EXPECT_EQ(clients.at("c").blocks, 1);
  EXPECT_THAT(*Submit(7, "a", 4, 5, 3, two), testing::HasSubstr("max_running_seqs of this API key, 2"));
  EXPECT_THAT(*Submit(8, "b", 4, 60, 1, blocks), testing::HasSubstr("max_blocks of this API key, 10"));
}

TEST_F(FairSharesTest, ClientWithItsFullShare_TakesNoSlot_ThatAnotherClientIsEntitledTo) {
  for (const bool plan_ahead : {false, true}) {
    Make(100'000, 4, 64, plan_ahead);
    ASSERT_FALSE(Submit(1, "a", 4, 100));
    ASSERT_FALSE(Submit(2, "a", 4, 100));
    ASSERT_FALSE(Submit(3, "b", 40, 100));
    while (TokensOf(3) == 0) Step();
    // One sequence slot is left. Client a was served less, so its request is first in the queue, but client b has a
    // right to the slot.
    ASSERT_FALSE(Submit(4, "a", 4, 100));
    ASSERT_FALSE(Submit(5, "b", 4, 100));
    for (int i = 0; i < 5; ++i) Step();
    EXPECT_TRUE(Runs(5));
    EXPECT_FALSE(Runs(4)) << "two of the four places are its client's share";
    EXPECT_EQ(engine_->scheduler().num_preemptions(), 0) << "nobody was admitted only to give way";
    sinks_.clear();
  }
}

TEST_F(FairSharesTest, ClientWithItsFullShare_TakesASlot_ThatNoOtherClientIsEntitledTo) {
  Make(100'000, 4, 64);
  for (RequestId id = 1; id <= 2; ++id) ASSERT_FALSE(Submit(id, "a", 4, 100));
  ASSERT_FALSE(Submit(3, "b", 4, 100));
  Step();
  ASSERT_FALSE(Submit(4, "a", 4, 100));
  Step();
  EXPECT_TRUE(Runs(4)) << "no place stays empty while somebody waits";
}

TEST_F(FairSharesTest, RequestAboveAShare_IsNotAdmitted_ToSlotsThatOtherClientsAreEntitledTo) {
  for (const bool plan_ahead : {false, true}) {
    Make(100'000, 12, 64, plan_ahead);
    ASSERT_FALSE(Submit(1, "a", 4, 100, 6));  // the share of each client is 4 sequence slots
    ASSERT_FALSE(Submit(2, "b", 4, 10, 4));
    ASSERT_FALSE(Submit(3, "c", 4, 10, 4));
    Step();
    EXPECT_TRUE(Runs(2) && Runs(3));
    EXPECT_FALSE(Runs(1)) << "its turn came first";
    while (!Runs(1)) Step();
    EXPECT_EQ(engine_->scheduler().num_preemptions(), 0) << "nobody was admitted only to give way";
    sinks_.clear();
  }
}

TEST_F(FairSharesTest, RequestAboveAShare_RunsAndIsProtectedFromPreemption_AfterItLetOthersGoFirst) {
  Make(100'000, 12, 64);
  ASSERT_FALSE(Submit(1, "a", 4, 100, 6));
  ASSERT_FALSE(Submit(2, "b", 4, 10, 4));
  ASSERT_FALSE(Submit(3, "c", 4, 10, 4));
  while (!Runs(1)) Step();
  ASSERT_FALSE(Submit(4, "b", 4, 10, 4));
  ASSERT_FALSE(Submit(5, "c", 4, 10, 4));
  for (int64_t i = 1; i < Scheduler::kProtectedSteps; ++i) {
    Step();
    ASSERT_TRUE(Runs(1) && Runs(4) && !Runs(5)) << i;
  }
  Step();
  EXPECT_TRUE(Runs(5));
}

TEST_F(FairSharesTest, RequestAboveAShare_RunsAtOnce_WhenAllRequestsFit) {
  Make(100'000, 12, 64);
  ASSERT_FALSE(Submit(1, "a", 4, 100, 6));
  ASSERT_FALSE(Submit(2, "b", 4, 10, 3));
  ASSERT_FALSE(Submit(3, "c", 4, 10, 3));
  Step();
  EXPECT_TRUE(Runs(1) && Runs(2) && Runs(3));
}

TEST_F(FairSharesTest, Scheduler_KeepsASequenceSlotFree_ForAClientThatStillRunsAnotherRequest) {
  Make(60'000, 8, 64);
  for (RequestId id = 1; id <= 8; ++id) ASSERT_FALSE(Submit(id, "a", 4, 1000));
  Step();
  ASSERT_FALSE(Submit(9, "b", 4, 1000));
  Step();
  for (RequestId id = 10; id <= 12; ++id) {
    ASSERT_FALSE(Submit(id, "b", 4, 1));
    Step();
    EXPECT_EQ(TokensOf(id), 1u);
    for (int i = 0; i < 20; ++i) Step();
  }
  EXPECT_EQ(engine_->scheduler().num_preemptions(), 2) << "for the first two requests; their two places were kept";
  for (int64_t i = 0; i < Scheduler::kReservedSteps; ++i) Step();
  EXPECT_EQ(engine_->scheduler().num_running(), 8) << "no second request came again";
}

TEST_F(FairSharesTest, EncoderPrompts_AreComputedInSlices_WhenTheyAreLongerThanAStep) {
  Make(2000, 8, 512, false, true);
  ASSERT_FALSE(SubmitText(1, "a", 300));
  ASSERT_FALSE(SubmitText(2, "b", 200));
  ASSERT_FALSE(SubmitText(3, "a", 40));
  ASSERT_FALSE(SubmitText(4, "b", 20));
  std::map<int, int64_t> passed;  // end of the last slice, by the prompt's length
  std::vector<int> whole;
  while (!engine_->idle()) {
    const StepPlan plan = Step();
    double tokens = 0;
    for (const Chunk& chunk : plan.chunks) {
      EXPECT_EQ(chunk.start, 0);
      whole.push_back(chunk.count);
      tokens += chunk.count;
    }
    for (const Slice& slice : plan.slices) {
      EXPECT_EQ(slice.stages, kPassStages);
      EXPECT_EQ(slice.begin, passed[slice.tokens]) << "a slice follows the one before it";
      passed[slice.tokens] = slice.end();
      tokens += slice.equivalent();
    }
    EXPECT_LE(tokens, 64) << "several clients are active";
  }
  EXPECT_THAT(whole, testing::UnorderedElementsAre(40, 20)) << "short prompts are not cut";
  EXPECT_EQ(passed, (std::map<int, int64_t>{{300, 300 * kPassStages}, {200, 200 * kPassStages}}));
}

TEST_F(FairSharesTest, ShortPrompt_IsComputedInTheNextStep_WhileALongPromptIsComputedInSlices) {
  Make(8000, 8, 512, false, true);
  ASSERT_FALSE(SubmitText(1, "a", 9000));
  Step();
  for (RequestId id = 2; id < 40; ++id) {
    ASSERT_FALSE(SubmitText(id, "b", 20));
    const StepPlan plan = Step();
    EXPECT_EQ(TokensOf(id), 1u);
    EXPECT_GT(SliceOf(plan, 1).count, 0) << "the pass goes on";
  }
}

TEST_F(FairSharesTest, ShortPrompt_IsComputedBesideTheFirstSliceOfALongPrompt_ThatWasAskedForEarlier) {
  Make(8000, 8, 512, false, true);
  ASSERT_FALSE(SubmitText(1, "a", 20));
  ASSERT_FALSE(SubmitText(2, "b", 9000));
  ASSERT_FALSE(SubmitText(3, "c", 20));
  Step();
  EXPECT_EQ(TokensOf(1), 1u);
  EXPECT_EQ(TokensOf(3), 0u) << "the long prompt is next, and its pass begins with the next step";
  const StepPlan plan = Step();
  EXPECT_GT(SliceOf(plan, 2).count, 0);
  EXPECT_EQ(TokensOf(3), 1u);
}

TEST_F(FairSharesTest, ShortPrompts_GoBeforeTheirClientsNextLongPrompt_WhileAnotherIsComputedInSlices) {
  Make(8000, 8, 512, false, true);
  ASSERT_FALSE(SubmitText(1, "a", 3000));
  ASSERT_FALSE(SubmitText(2, "a", 3000));
  ASSERT_FALSE(SubmitText(3, "a", 30));
  Step();
  Step();
  EXPECT_EQ(TokensOf(3), 1u);
  EXPECT_FALSE(Runs(2)) << "one pass of a client at a time";
  while (!engine_->idle()) Step();
  EXPECT_EQ(TokensOf(2), 1u);
}

TEST_F(FairSharesTest, LongPrompts_GetEvenPartsOfTheSteps_WhenManyClientsSendThem) {
  Make(8000, 16, 512, false, true);
  for (RequestId id = 1; id <= 4; ++id) ASSERT_FALSE(SubmitText(id, std::string(1, char('a' + id)), 3000));
  std::map<RequestId, double> tokens;
  for (int step = 0; step < 60; ++step) {
    const StepPlan plan = Step();
    for (RequestId id = 1; id <= 4; ++id) tokens[id] += step < 20 ? 0 : SliceOf(plan, id).equivalent();
  }
  for (RequestId id = 2; id <= 4; ++id) EXPECT_NEAR(tokens[id], tokens[1], 0.1 * tokens[1]);
}

TEST_F(FairSharesTest, Pass_HasNoSmallerPartOfTheStep_WhileOtherLongPromptsWaitForItsEnd) {
  Make(20'000, 3, 512, false, true);  // three sequence slots: no second pass may begin
  ASSERT_FALSE(SubmitText(1, "a", 9000));
  ASSERT_FALSE(SubmitText(2, "b", 9000));
  Step();
  const double beside_one = SliceOf(Step(), 1).equivalent();
  for (RequestId id = 3; id <= 8; ++id) ASSERT_FALSE(SubmitText(id, std::string(1, char('a' + id)), 9000));
  EXPECT_DOUBLE_EQ(SliceOf(Step(), 1).equivalent(), beside_one);
  for (RequestId id = 2; id <= 8; ++id) EXPECT_FALSE(Runs(id));
  for (RequestId id = 9; id <= 11; ++id) ASSERT_FALSE(SubmitText(id, std::string(1, char('a' + id)), 20));
  EXPECT_LT(SliceOf(Step(), 1).equivalent(), beside_one) << "short texts have their part";
}

TEST_F(FairSharesTest, PromptInSlices_TakesNoFurtherStepAndKeepsNoRows_AfterItsRequestIsCancelled) {
  Make(8000, 8, 512, true, true);
  ASSERT_FALSE(SubmitText(1, "a", 9000));
  Plan();
  ASSERT_NE(Plan(), nullptr);
  EXPECT_EQ(engine_->scheduler().passes().KeptRows(), 9000);
  engine_->Cancel(1);
  EXPECT_EQ(engine_->scheduler().passes().KeptRows(), 0);
  EXPECT_EQ(engine_->blocks().num_free(), 8000);
  ASSERT_FALSE(SubmitText(2, "a", 30));
  Commit();
  const StepPlan* plan = Plan();
  ASSERT_NE(plan, nullptr);
  EXPECT_TRUE(plan->slices.empty());
  EXPECT_EQ(plan->released.size(), 1u) << "the workers free their rows with the next plan";
}

TEST_F(FairSharesTest, PromptInSlices_IsComputedFromTheFirstSliceAgain_WhenTheWorkersAreLost) {
  Make(8000, 8, 512, false, true);
  ASSERT_FALSE(SubmitText(1, "a", 3000));
  for (int i = 0; i < 5; ++i) Step();
  Plan();
  draws_.clear();
  engine_->StartEpoch(2, engine_->blocks().sizes(), 1);
  const StepPlan plan = Step();
  ASSERT_EQ(plan.slices.size(), 1u);
  EXPECT_EQ(plan.slices.front().begin, 0);
  ASSERT_EQ(plan.added.size(), 1u);
  while (!engine_->idle()) Step();
  EXPECT_EQ(TokensOf(1), 1u);
}

TEST_F(FairSharesTest, PromptInSlices_Waits_WhileOtherLongPromptsFillTheirShareOfRowsSlotsOrBlocks) {
  const auto running = [this] {
    Step();
    Step();
    Step();
    return engine_->scheduler().num_running();
  };
  Make(20'000, 16, 512, false, true);
  for (RequestId id = 1; id <= 3; ++id) ASSERT_FALSE(SubmitText(id, std::string(1, char('a' + id)), 9000));
  EXPECT_EQ(running(), 2) << "20,000 rows may be kept";
  Make(20'000, 4, 512, false, true);
  for (RequestId id = 1; id <= 3; ++id) ASSERT_FALSE(SubmitText(id, std::string(1, char('a' + id)), 3000));
  EXPECT_EQ(running(), 2) << "half of the places are left to short prompts";
  Make(2000, 16, 512, false, true);
  for (RequestId id = 1; id <= 3; ++id) ASSERT_FALSE(SubmitText(id, std::string(1, char('a' + id)), 2400));
  EXPECT_EQ(running(), 2) << "a quarter of the blocks is left to short prompts";
  ASSERT_FALSE(SubmitText(9, "z", 20));
  Step();
  EXPECT_EQ(TokensOf(9), 1u);
}

TEST_F(FairSharesTest, Slice_TakesAsLongAsAChunk_WhenTokensOfLongPromptsTakeLonger) {
  Make(8000, 8, 512, false, true);
  ASSERT_FALSE(SubmitText(1, "a", 9000));
  ASSERT_FALSE(SubmitText(2, "b", 60));
  // A token takes 1 ms, and 1 us more for each token of its prompt.
  const auto seconds_of = [](const StepPlan& plan) {
    double seconds = 0;
    for (const Chunk& chunk : plan.chunks) seconds += chunk.count * (1e-3 + 1e-6 * chunk.count);
    for (const Slice& slice : plan.slices) seconds += slice.equivalent() * (1e-3 + 1e-6 * slice.tokens);
    return seconds;
  };
  int steps = 0;
  for (RequestId id = 3; !engine_->idle(); ++id, ++steps) {
    if (id < 500) {
      ASSERT_FALSE(SubmitText(id, "b", 20 + static_cast<int>(id) % 200));
    }
    const StepPlan* plan = Plan();
    ASSERT_NE(plan, nullptr);
    const double seconds = seconds_of(*plan);
    EXPECT_LT(seconds, steps < 50 ? 100 : id < 500 ? 0.25 : 1.0) << "step " << steps;
    Commit({static_cast<uint32_t>(seconds * 1e6), 0});
  }
  EXPECT_EQ(TokensOf(1), 1u);
}

}  // namespace
}  // namespace quire

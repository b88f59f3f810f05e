// Tests that requests of batches are set aside while requests of other kinds are in the engine.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "coordinator/core/engine/engine.h"
#include "tests/support/collecting_sink.h"

namespace quire {
namespace {

/// An engine with blocks of 4 tokens. Its "model" samples 100, 101, ... by position.
class BackgroundTest : public testing::Test {
 protected:
  explicit BackgroundTest() {
    EngineOptions options;
    options.scheduler.max_step_tokens = 64;
    options.scheduler.max_running = 4;
    options.blocks.num_blocks = 21;
    options.blocks.block_size = 4;
    options.blocks.watermark = 0;
    options.max_model_len = 60;
    engine_ = std::make_unique<Engine>(options);
  }

  void Submit(RequestId id, bool background, int prompt = 9, int max_tokens = 4, const std::string& client = "") {
    const std::vector<TokenId> tokens(static_cast<size_t>(prompt), static_cast<TokenId>(id));
    auto request = test::MakeRequest(id, tokens, max_tokens, sinks_[id], 1);
    request->background = background;
    request->client = client;
    ASSERT_FALSE(engine_->Submit(std::move(request)));
  }
  /// Plans one step and returns the requests in it.
  std::set<RequestId> PlannedStep() {
    std::set<RequestId> computed;
    if (engine_->NextPlan(0) == nullptr) return computed;
    engine_->scheduler().CheckIntegrity();
    const auto& members = engine_->scheduler().outstanding().at(engine_->num_outstanding() - 1).members;
    for (const StepMember& m : members) computed.insert(m.request->id);
    return computed;
  }
  void Commit() {
    std::vector<SampledToken> drawn;
    for (const StepMember& m : engine_->scheduler().outstanding().at(0).members) {
      if (m.draws) drawn.push_back({m.slot, 100 + m.start + m.count, 0, {}});
    }
    engine_->CommitStep(drawn);
    engine_->scheduler().CheckIntegrity();
  }
  std::set<RequestId> Step() {
    const auto computed = PlannedStep();
    if (!computed.empty()) Commit();
    return computed;
  }
  void ExpectWhole(RequestId id, int prompt, int max_tokens) {
    std::vector<TokenId> right;
    for (int i = 0; i < max_tokens; ++i) right.push_back(100 + prompt + i);
    EXPECT_EQ(sinks_[id].choices[0].tokens, right) << id;
  }

  std::unique_ptr<Engine> engine_;
  std::map<RequestId, test::CollectingSink> sinks_;
};

using Ids = std::set<RequestId>;

TEST_F(BackgroundTest, BackgroundRequest_GivesUpItsPlaceAndBlocks_WhenAnotherRequestArrives) {
  for (const char* client : {"", "other"}) {
    Submit(1, true);
    EXPECT_EQ(Step(), Ids{1});
    EXPECT_EQ(Step(), Ids{1});
    Submit(2, false, 9, 3, client);
    EXPECT_EQ(engine_->blocks().num_free(), engine_->blocks().num_usable()) << "it holds nothing";
    for (int i = 0; i < 3; ++i) EXPECT_EQ(Step(), Ids{2});
    ExpectWhole(2, 9, 3);
    while (!engine_->idle()) EXPECT_EQ(Step(), Ids{1});
    ExpectWhole(1, 9, 4);
    sinks_.clear();
  }
}

TEST_F(BackgroundTest, BackgroundRequest_Waits_WhileAnotherRequestRuns) {
  Submit(1, false, 9, 2);
  Submit(2, true);
  EXPECT_EQ(engine_->scheduler().num_waiting(), 1) << "only the first is queued";
  EXPECT_EQ(Step(), Ids{1});
  EXPECT_EQ(Step(), Ids{1});
  Submit(3, true);
  EXPECT_EQ(Step(), (Ids{2, 3})) << "among themselves they run together";
  while (!engine_->idle()) Step();
  for (const RequestId id : {2, 3}) ExpectWhole(id, 9, 4);
}

TEST_F(BackgroundTest, BackgroundRequest_LosesTheTokenOfItsOutstandingStep_WhenAnotherRequestArrives) {
  Submit(1, true, 9, 8);
  EXPECT_EQ(PlannedStep(), Ids{1});
  Submit(2, false, 9, 1);
  Commit();  // the step's token for the background request is dropped
  EXPECT_TRUE(sinks_[1].choices.empty() || sinks_[1].choices[0].tokens.empty());
  EXPECT_EQ(Step(), Ids{2});
  while (!engine_->idle()) Step();
  ExpectWhole(1, 9, 8);
}

TEST_F(BackgroundTest, BackgroundRequest_CanBeCancelledMovedAndFailed_WhileItIsSetAside) {
  Submit(1, false);
  for (const RequestId id : {2, 3, 4}) Submit(id, true);
  engine_->Cancel(2);
  auto departure = engine_->Depart(3, 0, 0);
  ASSERT_TRUE(departure);
  engine_->StartEpoch(2);
  EXPECT_EQ(engine_->requests().size(), 2u);
  ASSERT_FALSE(engine_->Adopt(departure->request, 0, {}));
  EXPECT_TRUE(engine_->requests().at(3)->set_aside);
  while (engine_->requests().contains(1)) EXPECT_EQ(Step(), Ids{1});
  EXPECT_EQ(Step(), (Ids{3, 4}));
  engine_->FailAll("over");
  EXPECT_TRUE(engine_->idle());
  EXPECT_TRUE(engine_->background().empty());
}

}  // namespace
}  // namespace quire

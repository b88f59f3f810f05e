// Tests that requests are set aside while some rank lacks their adapter.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "coordinator/core/engine/engine.h"
#include "tests/support/collecting_sink.h"

namespace quire {
namespace {

constexpr int kOne = kMostListedAdapters + 1, kOther = kMostListedAdapters + 2;

class LaterAdaptersTest : public testing::Test {
 protected:
  LaterAdaptersTest() {
    EngineOptions options;
    options.scheduler.max_step_tokens = 64;
    options.scheduler.max_running = 4;
    options.blocks.num_blocks = 21;
    options.blocks.block_size = 4;
    options.max_model_len = 60;
    engine_ = std::make_unique<Engine>(options);
  }

  void Submit(RequestId id, int adapter, bool background = false) {
    auto request = test::MakeRequest(id, std::vector<TokenId>(9, static_cast<TokenId>(id)), 4, sinks_[id], 1);
    request->adapter = adapter;
    request->background = background;
    ASSERT_FALSE(engine_->Submit(std::move(request)));
  }
  /// Plans and commits a step; returns the requests in it.
  std::set<RequestId> Step() {
    if (engine_->NextPlan(0) == nullptr) return {};
    const auto& members = engine_->scheduler().outstanding().at(0).members;
    std::set<RequestId> computed;
    std::vector<SampledToken> drawn;
    for (const StepMember& m : members) {
      computed.insert(m.request->id);
      if (m.draws) drawn.push_back({m.slot, 100 + m.start + m.count, 0, {}});
    }
    engine_->CommitStep(drawn);
    engine_->scheduler().CheckIntegrity();
    return computed;
  }

  std::unique_ptr<Engine> engine_;
  std::map<RequestId, test::CollectingSink> sinks_;
};

using Ids = std::set<RequestId>;

TEST_F(LaterAdaptersTest, Requests_DelayNoOtherRequests_WhileTheirAdapterIsNotLoaded) {
  Submit(1, kOne);
  EXPECT_TRUE(Step().empty());
  Submit(2, 0);
  Submit(3, 1);
  EXPECT_EQ(Step(), (Ids{2, 3}));
  engine_->AdapterCame(kOther);
  EXPECT_EQ(Step(), (Ids{2, 3}));
  engine_->AdapterCame(kOne);
  EXPECT_EQ(Step(), (Ids{1, 2, 3}));
}

TEST_F(LaterAdaptersTest, Requests_Resume_WhenTheirAdapterIsLoadedAgain) {
  engine_->AdapterCame(kOne);
  Submit(1, kOne);
  EXPECT_EQ(Step(), Ids{1});
  EXPECT_EQ(Step(), Ids{1});
  engine_->AdapterGone(kOne);
  EXPECT_EQ(engine_->blocks().num_free(), engine_->blocks().num_usable());
  EXPECT_TRUE(Step().empty());
  engine_->AdapterCame(kOne);
  while (!engine_->idle()) EXPECT_EQ(Step(), Ids{1});
  EXPECT_EQ(sinks_[1].choices[0].tokens, (std::vector<TokenId>{109, 110, 111, 112}));
}

TEST_F(LaterAdaptersTest, NewEpoch_HasAllListedAdapters_ButNoAdapterLoadedLater) {
  engine_->AdapterCame(kOne);
  Submit(1, kOne);
  Submit(2, kMostListedAdapters);
  EXPECT_EQ(Step(), (Ids{1, 2}));
  engine_->StartEpoch(2);
  EXPECT_EQ(Step(), Ids{2});
  engine_->AdapterCame(kOne);
  EXPECT_EQ(Step(), (Ids{1, 2}));
}

TEST_F(LaterAdaptersTest, BackgroundRequest_WaitsForItsAdapter_AndForOtherRequests) {
  Submit(1, kOne, true);
  Submit(2, 0, true);
  EXPECT_EQ(Step(), Ids{2});
  Submit(3, 0);
  engine_->AdapterCame(kOne);
  EXPECT_EQ(Step(), Ids{3});
  while (engine_->requests().contains(3)) Step();
  EXPECT_EQ(Step(), (Ids{1, 2}));
}

TEST_F(LaterAdaptersTest, Requests_CanBeCancelledMovedAndFailed_WhileTheirAdapterIsNotLoaded) {
  for (const RequestId id : {1, 2, 3}) Submit(id, kOne);
  engine_->Cancel(1);
  auto departure = engine_->Depart(2, 0, 0);
  ASSERT_TRUE(departure);
  ASSERT_FALSE(engine_->Adopt(departure->request, 0, {}));
  EXPECT_TRUE(engine_->requests().at(2)->set_aside);
  engine_->FailAll("over");
  EXPECT_TRUE(engine_->idle());
}

}  // namespace
}  // namespace quire

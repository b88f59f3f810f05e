#include "coordinator/cluster/replicas/replica_choice.h"

#include <gtest/gtest.h>

#include "coordinator/cluster/replicas/prefix_sketch.h"

namespace quire {
namespace {

constexpr RequestShape kShape{10, 16};

ReplicaView View(int64_t queued = 0, int running = 0, int free = 100) {
  ReplicaView view;
  view.queued_tokens = queued;
  view.running = running;
  view.free_blocks = free;
  view.usable_blocks = 100;
  return view;
}

TEST(ChooseReplicaTest, Choice_IsTheLeastLoadedReplica) {
  EXPECT_EQ(ChooseReplica(std::vector{View(300), View(200), View(250)}, kShape), 1);
  EXPECT_EQ(ChooseReplica(std::vector{View(0, 5), View(0, 4)}, kShape), 1);
  EXPECT_EQ(ChooseReplica(std::vector{View(), View()}, kShape), 0) << "the first of equals";
}

TEST(ChooseReplicaTest, MissingBlocks_CountAsQueuedTokens) {
  EXPECT_EQ(ChooseReplica(std::vector{View(0, 0, 5), View(64, 0, 100)}, kShape), 1) << "5 blocks are 80 tokens";
  EXPECT_EQ(ChooseReplica(std::vector{View(0, 0, 50), View(0, 0, 60)}, kShape), 1) << "more room, of equals";
}

TEST(ChooseReplicaTest, CachedPrefix_OutweighsSomeLoad) {
  std::vector views{View(), View(kAffinityMargin)};
  views[1].cached_blocks = 2;
  EXPECT_EQ(ChooseReplica(views, kShape), 1);
  views[1].queued_tokens += 1;
  EXPECT_EQ(ChooseReplica(views, kShape), 0) << "beyond the margin";
  views[1].cached_blocks = 40;
  EXPECT_EQ(ChooseReplica(views, kShape), 1) << "640 tokens saved";
  views[0].cached_blocks = 40;
  EXPECT_EQ(ChooseReplica(views, kShape), 0) << "both have it";
}

TEST(ChooseReplicaTest, RecoveringReplica_IsChosenOnly_WhenAllRecover) {
  std::vector views{View(), View(1000)};
  views[0].recovering = true;
  EXPECT_EQ(ChooseReplica(views, kShape), 1);
  views[1].recovering = true;
  EXPECT_EQ(ChooseReplica(views, kShape), 0);
  views[0].serving = false;
  EXPECT_EQ(ChooseReplica(views, kShape), 1);
  views[1].serving = false;
  EXPECT_EQ(ChooseReplica(views, kShape), std::nullopt);
}

TEST(ChooseReplicaTest, Prompts_AreSentToPrefillReplicas_UnlessTheyRecover) {
  std::vector views{View(5000), View(), View()};
  views[0].prefills = true;
  EXPECT_EQ(ChooseReplica(views, kShape), 0);
  views[0].recovering = true;
  EXPECT_EQ(ChooseReplica(views, kShape), 1) << "but nobody waits for one that is not there";
}

TEST(ChooseDecoderTest, Choice_IsTheLeastLoadedReplicaThatDecodes) {
  std::vector views{View(), View(100), View(50)};
  views[0].prefills = true;
  EXPECT_EQ(ChooseDecoder(views, 0, kShape), 2);
  views[2].recovering = true;
  EXPECT_EQ(ChooseDecoder(views, 0, kShape), 1);
  views[1].serving = false;
  EXPECT_EQ(ChooseDecoder(views, 0, kShape), std::nullopt) << "it decodes where it is";
}

TEST(ChooseReliefTest, ChooseRelief_NeedsWaitingRequestsAtTheSource_AndFreeBlocksAtTheDestination) {
  std::vector views{View(0, 9, 0), View(0, 3, 60), View(0, 2, 80)};
  EXPECT_EQ(ChooseRelief(views, 0, false, kShape), std::nullopt) << "nobody waits";
  EXPECT_EQ(ChooseRelief(views, 0, true, kShape), 2);
  views[0].waiting = 1;
  EXPECT_EQ(ChooseRelief(views, 0, false, kShape), 2);
  views[2].waiting = 1;
  EXPECT_EQ(ChooseRelief(views, 0, false, kShape), 1);
  views[1].free_blocks = 34;
  EXPECT_EQ(ChooseRelief(views, 0, false, kShape), std::nullopt) << "a quarter stays free";
}

TEST(PrefixSketchTest, Leading_CountsThePromptsBlocksCachedAtAReplica_UnderTheSameSalt) {
  PrefixSketch sketch(4);
  std::vector<TokenId> prompt(18, 5);
  const auto hashes = sketch.HashesOf("a", prompt);
  ASSERT_EQ(hashes.size(), 4u) << "full blocks";
  sketch.Note(hashes, 1);
  EXPECT_EQ(sketch.Leading(hashes, 1), 4);
  EXPECT_EQ(sketch.Leading(hashes, 0), 0);
  EXPECT_EQ(sketch.Leading(sketch.HashesOf("b", prompt), 1), 0) << "another client's";
  prompt[9] = 6;
  EXPECT_EQ(sketch.Leading(sketch.HashesOf("a", prompt), 1), 2);
  sketch.Forget(1);
  EXPECT_EQ(sketch.Leading(hashes, 1), 0);
}

TEST(PrefixSketchTest, Sketch_ForgetsTheHashes_ThatWereNotedLongestAgo) {
  PrefixSketch sketch(1, 8);
  const auto hashes = [&](TokenId token) { return sketch.HashesOf("", std::vector<TokenId>(4, token)); };
  sketch.Note(hashes(1), 0);
  sketch.Note(hashes(2), 0);
  sketch.Note(hashes(1), 0);  // recorded again, so these hashes are no longer the oldest
  sketch.Note(hashes(3), 0);
  EXPECT_EQ(sketch.Leading(hashes(1), 0), 4);
  EXPECT_EQ(sketch.Leading(hashes(2), 0), 0);
  EXPECT_EQ(sketch.Leading(hashes(3), 0), 4);
  for (int i = 0; i < 1000; ++i) sketch.Note(hashes(3), 0);
  EXPECT_EQ(sketch.Leading(hashes(3), 0), 4);
}

}  // namespace
}  // namespace quire

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/base/json.h"
#include "coordinator/cache_events/cache_event_publisher.h"
#include "coordinator/core/blocks/block_manager.h"
#include "tests/support/error_of.h"

namespace quire {
namespace {

using Kind = CacheEvent::Kind;

/// A pool of `num_blocks` usable blocks of four tokens, and the events of its prefix cache.
class CacheEventsTest : public testing::Test {
 protected:
  /// Returns a sequence of these tokens, all of them computed.
  Sequence Compute(std::vector<TokenId> tokens, int adapter = 0) {
    Sequence sequence;
    sequence.tokens = std::move(tokens);
    sequence.num_prompt_tokens = sequence.num_tokens();
    sequence.contents.root = blocks_.prefixes().Root("", adapter);
    sequence.contents.adapter = adapter;
    sequence.contents.Restart();
    blocks_.Grow(sequence, sequence.num_tokens(), plan_);
    blocks_.Computed(sequence, sequence.num_tokens());
    return sequence;
  }

  CacheEventLog log_{4};
  StepPlan plan_;
  BlockManager blocks_{{.num_blocks = 5, .block_size = 4}};
};

TEST_F(CacheEventsTest, FullBlocks_AreReported_WithTokensAndParentBlock) {
  blocks_.prefixes().AddListener(&log_);
  Sequence first = Compute({1, 2, 3, 4, 5, 6, 7, 8, 9});
  const auto stored = log_.Take();
  ASSERT_EQ(stored.size(), 1u);
  EXPECT_EQ(stored[0].kind, Kind::kStored);
  EXPECT_EQ(stored[0].parent, std::nullopt);
  EXPECT_EQ(stored[0].hashes.size(), 2u);
  EXPECT_THAT(stored[0].tokens, testing::ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));

  first.tokens.insert(first.tokens.end(), {10, 11, 12});
  blocks_.Computed(first, 3);
  const auto next = log_.Take();
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0].parent, stored[0].hashes[1]);
  EXPECT_THAT(next[0].tokens, testing::ElementsAre(9, 10, 11, 12));
}

TEST_F(CacheEventsTest, EqualBlocks_AreReportedOnce_AndAnAdaptersBlocksSeparately) {
  blocks_.prefixes().AddListener(&log_);
  Compute({1, 2, 3, 4});
  Compute({1, 2, 3, 4});
  Compute({1, 2, 3, 4}, 2);
  const auto events = log_.Take();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].adapter, 0);
  EXPECT_EQ(events[1].adapter, 2);
  EXPECT_NE(events[0].hashes, events[1].hashes);
}

TEST_F(CacheEventsTest, ReusedBlock_IsReportedAsRemoved_BeforeItsNewContent) {
  blocks_.prefixes().AddListener(&log_);
  Sequence first = Compute({1, 2, 3, 4, 5, 6, 7, 8});
  const auto stored = log_.Take();
  blocks_.Free(first);
  EXPECT_TRUE(log_.Take().empty()) << "free blocks stay cached";
  Compute({11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22});  // takes two empty blocks, then the block of tokens 5 to 8
  const auto events = log_.Take();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, Kind::kRemoved);
  EXPECT_THAT(events[0].hashes, testing::ElementsAre(stored[0].hashes[1]));
  EXPECT_EQ(events[1].kind, Kind::kStored);
  EXPECT_EQ(events[1].hashes.size(), 3u);
}

TEST_F(CacheEventsTest, Flush_LeavesOneEvent_WhateverWasStoredBefore) {
  blocks_.prefixes().AddListener(&log_);
  Compute({1, 2, 3, 4});
  blocks_.prefixes().Flush();
  auto events = log_.Take();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, Kind::kCleared);
  blocks_.prefixes().Enable(false);
  events = log_.Take();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, Kind::kCleared);
  Compute({1, 2, 3, 4});
  EXPECT_TRUE(log_.Take().empty()) << "the prefix cache is off";
}

TEST(CacheEventsTextTest, EncodedBatch_HasTheDocumentedFields) {
  const CacheEventSource source{.replica = 1, .block_size = 2, .adapters = {"other", "sql"}};
  const uint64_t large = 0xfedcba9876543210;
  const std::string bytes = EncodeCacheEvents(
      {{.kind = Kind::kCleared},
       {.kind = Kind::kStored, .hashes = {large, 7}, .parent = 5, .tokens = {1, 2, 3, 4}, .adapter = 2},
       {.kind = Kind::kStored, .hashes = {8}, .tokens = {9, 9}},
       {.kind = Kind::kRemoved, .hashes = {7, 8}}},
      12.5, source);
  EXPECT_EQ(Json::from_msgpack(bytes), Json::parse(R"([12.5, [
      {"type": "AllBlocksCleared"},
      {"type": "BlockStored", "block_hashes": [18364758544493064720, 7], "parent_block_hash": 5,
       "token_ids": [1, 2, 3, 4], "block_size": 2, "lora_id": 2, "medium": "GPU", "lora_name": "sql"},
      {"type": "BlockStored", "block_hashes": [8], "parent_block_hash": null, "token_ids": [9, 9], "block_size": 2,
       "lora_id": null, "medium": "GPU", "lora_name": null},
      {"type": "BlockRemoved", "block_hashes": [7, 8], "medium": "GPU"}], 1])"));
}

TEST(CacheEventQueueTest, FullQueue_ForgetsItsBatches_AndSaysThatNothingIsCached) {
  CacheEventQueue queue(2);
  for (const uint64_t hash : {1, 2}) queue.Push({{.kind = Kind::kStored, .hashes = {hash}}}, 1.0);
  EXPECT_EQ(queue.num_lost(), 0);
  queue.Push({{.kind = Kind::kRemoved, .hashes = {1}}}, 2.0);
  EXPECT_EQ(queue.num_lost(), 3);
  queue.Push({{.kind = Kind::kStored, .hashes = {3}}}, 3.0);
  const auto batches = queue.TakeAll();
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_EQ(batches[0].events[0].kind, Kind::kCleared);
  EXPECT_THAT(batches[1].events[0].hashes, testing::ElementsAre(3));
  EXPECT_TRUE(queue.TakeAll().empty());
}

TEST(KvEventsSettingsTest, EachGroupOfWorkers_HasAnEndpointOfItsOwn) {
  Topology t;
  t.model.path = "/m";
  t.parallel.replicas = 2;
  EXPECT_EQ(ReplicaTopology(t, 1).kv_events.endpoint, "tcp://127.0.0.1:5558");
  EXPECT_TRUE(ReplicaTopology(t, 1).kv_events.binds()) << "as replica 0 does";
  t.kv_events = {.endpoint = "tcp://[::1]:5557", .bind = false, .replay_endpoint = "ipc:///run/events"};
  EXPECT_EQ(ReplicaTopology(t, 0).kv_events, t.kv_events);
  EXPECT_EQ(ReplicaTopology(t, 1).kv_events.endpoint, "tcp://[::1]:5558");
  EXPECT_EQ(ReplicaTopology(t, 1).kv_events.replay_endpoint, "ipc:///run/events.1");
  EXPECT_FALSE(ReplicaTopology(t, 1).kv_events.binds());
  t.models = {t, t};
  EXPECT_EQ(ReplicaTopology(ModelTopology(t, 1), 1).kv_events.endpoint, "tcp://[::1]:5560");
}

TEST(KvEventsSettingsTest, Endpoints_AreRefused_WhenNoReplicaCanUseThem) {
  Topology t;
  t.model.path = "/m";
  t.parallel.replicas = 2;
  const auto refusal = [&t](const char* endpoint, const char* replay) {
    t.kv_events = {.enabled = true, .endpoint = endpoint, .replay_endpoint = replay};
    return ErrorThrownBy([&] { ValidateTopology(t, "t.yaml"); });
  };
  EXPECT_EQ(refusal("tcp://*:65534", "ipc:///run/replays"), "");
  for (const char* endpoint : {"udp://*:5557", "tcp://*", "tcp://*:0", "tcp://:5557x", "ipc://relative", ""})
    EXPECT_THAT(refusal(endpoint, ""), testing::HasSubstr("must be tcp://ADDRESS:PORT or ipc:///PATH")) << endpoint;
  EXPECT_THAT(refusal("ipc:///e", "tcp://127.0.0.1:65535"), testing::HasSubstr("leaves no ports for 2 replicas"));
}

}  // namespace
}  // namespace quire

// Tests of the admin port's reports about a replica, from hand-made snapshots.
#include "coordinator/api/admin/replica_report.h"

#include <gtest/gtest.h>

#include "comm/base/json.h"
#include "coordinator/api/admin/block_report.h"

namespace quire {
namespace {

using std::chrono::milliseconds;

/// Returns a snapshot of two ranks. The last heartbeat of rank 1 came `silent` before the snapshot.
ReplicaSnapshot Snapshot(ReplicaState state, milliseconds silent) {
  ReplicaSnapshot replica;
  replica.replica = 3;
  replica.state = state;
  replica.when = std::chrono::steady_clock::time_point(std::chrono::hours(1));
  replica.epoch = 5;
  replica.ranks.resize(2);
  replica.ranks[0].host = replica.ranks[1].host = "node-a";
  replica.ranks[0].last_beat = replica.when;
  replica.ranks[1].last_beat = replica.when - silent;
  replica.blocks = {.total = 10, .free = 7, .held = 3, .cached = 2};
  replica.host_blocks = {.total = 4, .free = 4, .held = 0, .cached = 0};
  replica.options.blocks.block_size = 16;
  replica.options.blocks.state_blocks = 3;
  return replica;
}

std::string HealthOfSecond(ReplicaState state, milliseconds silent) {
  return TopologyJson(Snapshot(state, silent)).at("ranks").at(1).at("health").get<std::string>();
}

TEST(ReplicaReportTest, HealthOfARank_IsJudgedAtTheTimeOfTheSnapshot) {
  EXPECT_EQ(HealthOfSecond(ReplicaState::kServing, milliseconds(1000)), "ok");
  EXPECT_EQ(HealthOfSecond(ReplicaState::kServing, milliseconds(1001)), "late");
  EXPECT_EQ(HealthOfSecond(ReplicaState::kPaused, milliseconds(1001)), "late");
  EXPECT_EQ(HealthOfSecond(ReplicaState::kRecovering, milliseconds(0)), "starting");
  EXPECT_EQ(HealthOfSecond(ReplicaState::kFailed, milliseconds(0)), "lost");
}

TEST(ReplicaReportTest, Status_ContainsPoolsLossesAndJournal) {
  ReplicaSnapshot replica = Snapshot(ReplicaState::kPaused, milliseconds(20));
  replica.losses.latest = {{.epoch = 4,
                            .cause = LossCause::kDied,
                            .rank = -1,
                            .when = replica.when - std::chrono::seconds(2),
                            .stall_seconds = 0.5}};
  Json status = StatusJson(replica);
  EXPECT_EQ(status.at("state"), "paused");
  EXPECT_EQ(status.at("epoch"), 5);
  EXPECT_EQ(status.at("blocks"), ParseJson(R"({"device": {"total": 10, "free": 7, "used": 3, "cached": 2},
                                               "host": {"total": 4, "free": 4, "used": 0, "cached": 0},
                                               "block_size": 16, "blocks_per_state": 3})",
                                           "expected"));
  EXPECT_EQ(status.at("ranks").at(1).at("heartbeat_age_millis"), 20);
  EXPECT_EQ(status.at("losses").at(0).at("seconds_ago"), 2.0);
  EXPECT_EQ(status.at("losses").at(0).at("rank"), Json());
  EXPECT_EQ(status.at("journal"), Json()) << "there is none";
  replica.journal = JournalHealth{};
  EXPECT_EQ(StatusJson(replica).at("journal").at("error"), Json());
}

TEST(BlockReportTest, BlocksText_ContainsOwnersAndWaste) {
  BlockList list;
  list.device = {.total = 10, .free = 6, .held = 4, .cached = 1};
  list.block_size = 16;
  list.filled = 24;
  list.not_listed = 1;
  list.blocks = {{.id = 4, .ref_count = 2, .filled = 16, .hash = BlockHash{.low = 1, .high = 2}, .age_steps = 3},
                 {.id = 9, .ref_count = 1, .filled = 8},
                 {.id = 5, .ref_count = 1, .is_state = true, .kept_behind = 4},
                 {.id = 6, .ref_count = 1, .is_state = true}};
  list.blocks_per_state = 2;
  list.held_states = 2;
  list.owners = {{9, {.request = 7, .choice = 1, .index = 0}},
                 {6, {.request = 7, .index = 1, .is_state = true}},
                 {4, {.request = 7, .index = 2}},
                 {4, {.pin = 6}}};
  list.swapped_out = {{8, 5}};
  const Json blocks = ParseJson(BlocksText(list), "blocks");
  EXPECT_EQ(blocks.at("waste"), 0.25);
  EXPECT_EQ(blocks.at("not_listed"), 1);
  EXPECT_EQ(blocks.at("swapped_out"), ParseJson(R"([{"request": 8, "blocks": 5}])", "expected"));
  EXPECT_EQ(blocks.at("blocks"), ParseJson(
                                     R"([{"id": 4, "kind": "tokens", "kept_behind": null, "ref_count": 2, "filled": 16,
                           "hash": "00000000000000020000000000000001",
                           "age_steps": 3, "owners": [{"request": 7, "choice": 0, "index": 2}, {"pin": 6}]},
                          {"id": 9, "kind": "tokens", "kept_behind": null, "ref_count": 1, "filled": 8,
                           "hash": null, "age_steps": 0, "owners": [{"request": 7, "choice": 1, "index": 0}]},
                          {"id": 5, "kind": "state", "kept_behind": 4, "ref_count": 1, "filled": 0,
                           "hash": null, "age_steps": 0, "owners": []},
                          {"id": 6, "kind": "state", "kept_behind": null, "ref_count": 1, "filled": 0,
                           "hash": null, "age_steps": 0, "owners": [{"request": 7, "choice": 0, "state": 1}]}])",
                                     "expected"));
}

}  // namespace
}  // namespace quire

#include "coordinator/api/admin/replica_report.h"

#include <chrono>

#include "comm/base/json.h"
#include "coordinator/api/openai/on_engine.h"

namespace quire {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLateBeat(1000);  // beats come several times a second; 1.5 s without one is a loss

milliseconds BeatAge(const RankInfo& info, const ReplicaSnapshot& replica) {
  return std::chrono::duration_cast<milliseconds>(replica.when - info.last_beat);
}

const char* HealthOf(const RankInfo& info, const ReplicaSnapshot& replica) {
  if (replica.state == ReplicaState::kRecovering) return "starting";
  if (replica.state == ReplicaState::kFailed) return "lost";
  return BeatAge(info, replica) > kLateBeat ? "late" : "ok";
}

Json RankJson(const ReplicaSnapshot& replica, size_t rank) {
  const RankInfo& info = replica.ranks[rank];
  return {{"rank", rank},
          {"host", info.host},
          {"pid", info.pid},
          {"isa", info.isa},
          {"weight_bytes", info.weight_bytes},
          {"process_bytes", info.working.process_bytes},
          {"step_bytes", info.working.step_bytes},
          {"file_bytes", info.working.file_bytes},
          {"kv_bytes_per_block", info.bytes_per_block},
          {"last_step", info.last_step},
          {"last_step_micros", info.compute_micros},
          {"heartbeat_age_millis", BeatAge(info, replica).count()}};
}

/// Returns the counts of the clients in the snapshot. The snapshot has only the clients that were served last, because
/// without keys the number of clients is unbounded.
Json ClientsJson(const ReplicaSnapshot& replica) {
  Json clients = Json::object();
  for (const auto& [name, c] : replica.clients) {
    clients[name] = {{"running", c.running},
                     {"waiting", c.waiting},
                     {"running_seqs", c.running_seqs},
                     {"blocks", c.blocks},
                     {"prompt_tokens", c.prompt_tokens},
                     {"generated_tokens", c.generated_tokens}};
  }
  return clients;
}

/// Returns the numbers of verified draft tokens by source, and the numbers of accepted draft tokens by position in the
/// draft.
Json DraftsJson(const ReplicaSnapshot& replica) {
  Json methods = Json::object(), positions = Json::array();
  for (size_t i = 0; i < kDraftSources; ++i) {
    const DraftCounts& counts = replica.stats.drafts[i];
    methods[NameOf(static_cast<DraftSource>(i))] = {
        {"drafts", counts.drafts}, {"tokens", counts.tokens}, {"accepted", counts.accepted}};
  }
  const DraftCounts all = replica.stats.all_drafts();
  for (int i = 0; i < replica.options.drafts.num_tokens; ++i)
    positions.push_back(all.accepted_at[static_cast<size_t>(i)]);
  return {{"drafts", all.drafts},          {"tokens", all.tokens},
          {"accepted", all.accepted},      {"accepted_by_position", std::move(positions)},
          {"methods", std::move(methods)}, {"earlier_answers_bytes", replica.earlier_answers_bytes}};
}

Json LossJson(const LossLog::Entry& loss, const ReplicaSnapshot& replica) {
  const std::chrono::duration<double> ago = replica.when - loss.when;
  return {{"epoch", loss.epoch},
          {"cause", LossCauseName(loss.cause)},
          {"rank", loss.rank < 0 ? Json() : Json(loss.rank)},
          {"host", loss.host.empty() ? Json() : Json(loss.host)},
          {"message", loss.message},
          {"seconds_ago", ago.count()},
          {"stall_seconds", loss.stall_seconds < 0 ? Json() : Json(loss.stall_seconds)}};
}

/// Returns the state of the replica's journal as JSON; null without a journal.
Json JournalJson(const std::optional<JournalHealth>& health) {
  if (!health) return nullptr;
  return {{"waiting_bytes", health->waiting_bytes},
          {"lost_records", health->lost_records},
          {"error", health->error.empty() ? Json() : Json(health->error)}};
}

}  // namespace

boost::asio::awaitable<ReplicaSnapshot> SnapshotOf(Replica& replica) {
  std::function<ReplicaSnapshot(Engine&)> take = [&replica](Engine&) { return TakeSnapshot(replica); };
  ReplicaSnapshot snapshot = co_await OnEngine(replica.loop(), std::move(take));
  co_return snapshot;
}

const char* NameOf(ReplicaState state) {
  switch (state) {
    case ReplicaState::kServing:
      return "serving";
    case ReplicaState::kPaused:
      return "paused";
    case ReplicaState::kRecovering:
      return "recovering";
    case ReplicaState::kFailed:
      break;
  }
  return "failed";
}

Json PoolsJson(const PoolCounts& device, const PoolCounts& host, int block_size, int blocks_per_state) {
  return {
      {"device", {{"total", device.total}, {"free", device.free}, {"used", device.held}, {"cached", device.cached}}},
      {"host", {{"total", host.total}, {"free", host.free}, {"used", host.held}, {"cached", host.cached}}},
      {"block_size", block_size},
      {"blocks_per_state", blocks_per_state}};
}

Json StatusJson(const ReplicaSnapshot& replica) {
  Json ranks = Json::array(), losses = Json::array();
  for (size_t rank = 0; rank < replica.ranks.size(); ++rank) ranks.push_back(RankJson(replica, rank));
  for (const LossLog::Entry& loss : replica.losses.latest) losses.push_back(LossJson(loss, replica));
  return {{"state", NameOf(replica.state)},
          {"epoch", replica.epoch},
          {"recoveries", replica.recoveries},
          {"losses", std::move(losses)},
          {"ranks", std::move(ranks)},
          {"transport",
           {{"encrypted", replica.encrypted},
            {"refused_peers", replica.refused_peers},
            {"foreign_frames", replica.foreign_frames}}},
          {"blocks", PoolsJson(replica.blocks, replica.host_blocks, replica.options.blocks.block_size,
                               replica.options.blocks.state_blocks)},
          {"journal", JournalJson(replica.journal)},
          {"running", replica.running},
          {"waiting", replica.waiting},
          {"clients", ClientsJson(replica)},
          {"steps", replica.stats.steps},
          {"generated_tokens", replica.stats.generated_tokens},
          {"computed_tokens", replica.stats.computed_tokens},
          {"cached_tokens", replica.stats.cached_tokens},
          {"speculation", DraftsJson(replica)},
          {"preemptions", replica.preemptions},
          {"swapped_out", replica.swapped_out}};
}

Json TopologyJson(const ReplicaSnapshot& replica) {
  Json ranks = Json::array();
  for (size_t rank = 0; rank < replica.ranks.size(); ++rank) {
    Json json = RankJson(replica, rank);
    json["health"] = HealthOf(replica.ranks[rank], replica);
    ranks.push_back(std::move(json));
  }
  return {{"replica", replica.replica},
          {"state", NameOf(replica.state)},
          {"epoch", replica.epoch},
          {"recoveries", replica.recoveries},
          {"tensor", replica.shape.tensor},
          {"shares", replica.shape.shares},
          {"pipeline", replica.shape.pipeline},
          {"stages", replica.assignment.stage_layers},
          {"blocks", replica.blocks.total},
          {"encrypted", replica.encrypted},
          {"ranks", std::move(ranks)}};
}

}  // namespace quire

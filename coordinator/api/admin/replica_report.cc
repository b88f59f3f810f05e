#include "coordinator/api/admin/replica_report.h"

#include <chrono>

namespace quire {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLateBeat(1000);  // beats come several times a second; without one for 1.5 s a rank is lost

milliseconds BeatAge(const RankInfo& info) {
  return std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - info.last_beat);
}

}  // namespace

const char* StateOf(const Replica& replica) {
  if (replica.recovering()) return "recovering";
  if (!replica.serving()) return "failed";
  return replica.loop().paused() ? "paused" : "serving";
}

Json RankJson(const RankInfo& info, Rank rank) {
  return {{"rank", rank},
          {"host", info.host},
          {"pid", info.pid},
          {"isa", info.isa},
          {"weight_bytes", info.weight_bytes},
          {"kv_bytes_per_block", info.bytes_per_block},
          {"last_step", info.last_step},
          {"last_step_micros", info.compute_micros},
          {"heartbeat_age_millis", BeatAge(info).count()}};
}

const char* HealthOf(const RankInfo& info, const Replica& replica) {
  if (replica.recovering()) return "starting";
  if (!replica.serving()) return "lost";
  return BeatAge(info) > kLateBeat ? "late" : "ok";
}

Json ClientsJson(const Engine& engine) {
  Json clients = Json::object();
  for (const auto& [name, c] : engine.scheduler().Clients()) {
    clients[name] = {{"running", c.running},
                     {"waiting", c.waiting},
                     {"running_seqs", c.running_seqs},
                     {"blocks", c.blocks},
                     {"prompt_tokens", c.prompt_tokens},
                     {"generated_tokens", c.generated_tokens}};
  }
  return clients;
}

Json LossJson(const LossLog::Entry& loss) {
  const std::chrono::duration<double> ago = LossLog::Clock::now() - loss.when;
  return {{"epoch", loss.epoch},
          {"cause", LossCauseName(loss.cause)},
          {"rank", loss.rank < 0 ? Json() : Json(loss.rank)},
          {"host", loss.host.empty() ? Json() : Json(loss.host)},
          {"message", loss.message},
          {"seconds_ago", ago.count()},
          {"stall_seconds", loss.stall_seconds < 0 ? Json() : Json(loss.stall_seconds)}};
}

Json JournalJson(const std::optional<JournalHealth>& health) {
  if (!health) return nullptr;
  return {{"waiting_bytes", health->waiting_bytes},
          {"lost_records", health->lost_records},
          {"error", health->error.empty() ? Json() : Json(health->error)}};
}

}  // namespace quire

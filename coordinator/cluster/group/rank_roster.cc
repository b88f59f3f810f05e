#include "coordinator/cluster/group/rank_roster.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "coordinator/log/log.h"

namespace quire {

namespace {

/// A worker that does not know its epoch has an identity with this prefix (worker/serve/worker.cc).
constexpr const char* kAdoptablePrefix = "e0.";

}  // namespace

RankRoster::RankRoster(Options options) : options_(std::move(options)), infos_(static_cast<size_t>(options_.size)) {
  ForgetPeers();
}

void RankRoster::BeginEpoch(EpochId epoch, int size) {
  options_.epoch = epoch;
  options_.size = size;
  infos_.assign(static_cast<size_t>(size), {});
  ForgetPeers();
  closed_ = false;
}

void RankRoster::ForgetPeers() {
  peers_.clear();
  for (Rank rank = 0; rank < size(); ++rank)
    peers_.push_back(options_.adopt ? "" : WorkerIdentity(options_.epoch, rank));
}

std::string RankRoster::Describe(Rank rank) const {
  const RankInfo& known = info(rank);
  return known.host.empty() ? fmt::format("rank {}", rank)
                            : fmt::format("rank {} (pid {} on {})", rank, known.pid, known.host);
}

bool RankRoster::IsFrom(const ReceivedFrame& received, Rank rank) {
  if (options_.curve == nullptr || received.user == CurveUserId(rank)) return true;
  ++num_foreign_frames_;
  return false;
}

Rank RankRoster::SenderOf(const ReceivedFrame& received) {
  const auto found = std::ranges::find(peers_, received.peer);
  const auto rank = static_cast<Rank>(found - peers_.begin());
  if (found == peers_.end() || !IsFrom(received, rank)) return Adopt(received);
  return received.frame.header.epoch == options_.epoch ? rank : -1;
}

Rank RankRoster::SenderOfBeat(const ReceivedFrame& received) {
  if (received.frame.header.epoch != options_.epoch) return -1;
  for (Rank rank = 0; rank < size(); ++rank) {
    if (received.peer == WorkerIdentity(options_.epoch, rank)) return IsFrom(received, rank) ? rank : -1;
  }
  return -1;
}

/// Accepts a worker that asks to join the epoch that is starting. The new worker replaces an earlier worker of the same
/// rank, because workers may have been started again.
Rank RankRoster::Adopt(const ReceivedFrame& received) {
  const FrameHeader& header = received.frame.header;
  if (!options_.adopt || closed_ || header.epoch != 0 || header.kind != FrameKind::kJoin ||
      !received.peer.starts_with(kAdoptablePrefix))
    return -1;
  const Message message = Decode(received.frame);
  const Rank rank = std::get<JoinMessage>(message).rank;
  if (rank < 0 || rank >= size())
    Fail(LossCause::kNotStarted, -1, "a worker joined as rank {}, but there are {} ranks", rank, size());
  if (!IsFrom(received, rank)) return -1;
  peers_[static_cast<size_t>(rank)] = received.peer;
  info(rank) = {};
  return rank;
}

void RankRoster::Joined(Rank rank, const JoinMessage& join) {
  if (join.world_size != size())
    Fail(LossCause::kNotStarted, rank, "rank {} on {} says {} workers were started, {} are expected", rank, join.host,
         join.world_size, size());
  if (join.build != kBuildVersion)
    Fail(LossCause::kNotStarted, rank, "rank {} on {} is version {}, the coordinator is {}", rank, join.host,
         join.build, kBuildVersion);
  RankInfo& known = info(rank);
  if (known.pid != 0)
    Fail(LossCause::kNotStarted, rank, "rank {} joined twice (pids {} and {})", rank, known.pid, join.pid);
  known.host = join.host;
  known.pid = join.pid;
  known.devices = join.devices;
  known.device_problem = join.device_problem;
  known.processors = join.processors;
  known.memory_bytes = join.memory_bytes;
  known.memory_limit = join.memory_limit;
  const LogField of_rank("rank", int64_t{rank});
  spdlog::info("{} joined", Describe(rank));
}

void RankRoster::Loaded(Rank rank, const HelloMessage& hello) {
  if (hello.fingerprint != options_.fingerprint)
    Fail(LossCause::kNotStarted, rank, "{} loaded another model", Describe(rank));
  if (hello.bytes_per_block < 1 || hello.bytes_per_state < 0)
    Fail(LossCause::kBadFrame, rank, "{} sent an impossible report", Describe(rank));
  RankInfo& known = info(rank);
  known.isa = hello.isa;
  known.bytes_per_block = hello.bytes_per_block;
  known.bytes_per_state = hello.bytes_per_state;
  known.whole_block = hello.whole_block;
  known.whole_state = hello.whole_state;
  known.weight_bytes = hello.weight_bytes;
  known.available_bytes = hello.available_bytes;
  known.working = hello.working;
  known.load_millis = hello.load_millis;
  const LogField of_rank("rank", int64_t{rank});
  spdlog::info("{} loaded {:.1f} MiB of weights in {} ms ({})", Describe(rank),
               static_cast<double>(hello.weight_bytes) / (1 << 20), hello.load_millis, hello.isa);
}

}  // namespace quire

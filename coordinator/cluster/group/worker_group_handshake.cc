// How a worker group comes up: join, load, reserve blocks (comm/PROTOCOL.md, Handshake).
#include <spdlog/spdlog.h>

#include <algorithm>

#include "comm/base/error.h"
#include "coordinator/cluster/group/worker_group.h"

namespace quire {

namespace {

/// How the identity of a worker begins that does not know its epoch (worker.cc).
constexpr const char* kAdoptablePrefix = "e0.";

uint16_t PortOf(const std::string& endpoint) {
  const size_t colon = endpoint.rfind(':');
  return static_cast<uint16_t>(std::stoi(endpoint.substr(colon + 1)));
}

}  // namespace

/// A worker that asks to belong to the epoch that begins. Until the group is assigned, a later one replaces an earlier
/// one of its rank: whoever starts them may have started them again.
Rank WorkerGroup::Adopt(const ReceivedFrame& received) {
  const FrameHeader& header = received.frame.header;
  if (!options_.adopt || assigned_ || header.epoch != 0 || header.kind != FrameKind::kJoin ||
      !received.peer.starts_with(kAdoptablePrefix))
    return -1;
  const Message message = Decode(received.frame);
  const Rank rank = std::get<JoinMessage>(message).rank;
  if (rank < 0 || rank >= size())
    GroupFail(LossCause::kNotStarted, -1, "a worker joined as rank {}, but there are {} ranks", rank, size());
  if (!IsFrom(received, rank)) return -1;
  peers_[static_cast<size_t>(rank)] = received.peer;
  ranks_[static_cast<size_t>(rank)] = {};
  return rank;
}

void WorkerGroup::OnJoin(Rank rank, const JoinMessage& join) {
  if (join.world_size != size())
    GroupFail(LossCause::kNotStarted, rank, "rank {} on {} says {} workers were started, {} are expected", rank,
              join.host, join.world_size, size());
  if (join.build != kBuildVersion)
    GroupFail(LossCause::kNotStarted, rank, "rank {} on {} is version {}, the coordinator is {}", rank, join.host,
              join.build, kBuildVersion);
  RankInfo& info = ranks_[static_cast<size_t>(rank)];
  if (info.pid != 0)
    GroupFail(LossCause::kNotStarted, rank, "rank {} joined twice (pids {} and {})", rank, info.pid, join.pid);
  info.host = join.host;
  info.pid = join.pid;
  info.devices = join.devices;
  info.device_problem = join.device_problem;
  spdlog::info("{} joined", Describe(rank));
}

void WorkerGroup::AwaitAll(const char* what, std::chrono::seconds patience,
                           const std::function<void(Rank, const Message&)>& handle) {
  const auto deadline = Clock::now() + patience;
  std::vector<bool> answered(ranks_.size(), false);
  while (std::find(answered.begin(), answered.end(), false) != answered.end()) {
    if (Clock::now() > deadline) {
      const auto missing = std::find(answered.begin(), answered.end(), false) - answered.begin();
      GroupFail(LossCause::kNotStarted, static_cast<Rank>(missing), "{} did not {} within {} s",
                Describe(static_cast<Rank>(missing)), what, patience.count());
    }
    Pump(-1, 50, [&](Rank rank, const Frame& frame) {
      const Message message = Decode(frame);
      if (const auto* failure = std::get_if<FailureMessage>(&message)) OnFailure(rank, *failure);
      handle(rank, message);
      answered[static_cast<size_t>(rank)] = true;
    });
  }
}

void WorkerGroup::AwaitJoined(std::chrono::seconds patience) {
  AwaitAll("join", patience, [&](Rank rank, const Message& message) {
    const auto* join = std::get_if<JoinMessage>(&message);
    if (join == nullptr)
      GroupFail(LossCause::kBadFrame, rank, "{} sent something else before it joined", Describe(rank));
    OnJoin(rank, *join);
  });
}

void WorkerGroup::Load(AssignMessage assign) {
  if (data_endpoint_.starts_with("tcp://")) assign.ctrl_port = PortOf(ctrl_.bound_endpoint());
  SendToAll(Encode(assign, options_.epoch, 0), "assignment");
  for (RankInfo& info : ranks_) info.last_beat = Clock::now();
  assigned_ = true;
  AwaitAll("load", options_.load_deadline, [&](Rank rank, const Message& message) { OnLoaded(rank, message); });
}

void WorkerGroup::OnLoaded(Rank rank, const Message& message) {
  const auto* hello = std::get_if<HelloMessage>(&message);
  if (hello == nullptr)
    GroupFail(LossCause::kBadFrame, rank, "{} sent something else before it loaded", Describe(rank));
  if (hello->fingerprint != options_.fingerprint)
    GroupFail(LossCause::kNotStarted, rank, "{} loaded another model", Describe(rank));
  RankInfo& info = ranks_[static_cast<size_t>(rank)];
  if (hello->bytes_per_block < 1) GroupFail(LossCause::kBadFrame, rank, "{} sent an impossible report", Describe(rank));
  info.isa = hello->isa;
  info.bytes_per_block = hello->bytes_per_block;
  info.weight_bytes = hello->weight_bytes;
  info.available_bytes = hello->available_bytes;
  info.load_millis = hello->load_millis;
  spdlog::info("{} loaded {:.1f} MiB of weights in {} ms ({})", Describe(rank),
               static_cast<double>(hello->weight_bytes) / (1 << 20), hello->load_millis, hello->isa);
}

double WorkerGroup::Start(int num_blocks, int num_host_blocks) {
  if (options_.vocabulary != nullptr) SendToAll(Encode(*options_.vocabulary, options_.epoch, 0), "vocabulary");
  SendToAll(Encode(StartMessage{num_blocks, num_host_blocks}, options_.epoch, 0), "start");
  int64_t slowest_nanos = 0;
  AwaitAll("reserve its KV blocks", options_.load_deadline, [&](Rank rank, const Message& message) {
    const auto* answer = std::get_if<ReadyMessage>(&message);
    if (answer == nullptr || answer->num_blocks != num_blocks || answer->num_host_blocks != num_host_blocks)
      GroupFail(LossCause::kNotStarted, rank, "{} did not reserve {} blocks and {} on the host", Describe(rank),
                num_blocks, num_host_blocks);
    slowest_nanos = std::max(slowest_nanos, answer->swap_nanos_per_block);
  });
  return static_cast<double>(slowest_nanos) * 1e-9;
}

}  // namespace quire

#include "coordinator/cluster/worker_group.h"

#include <algorithm>

#include "comm/error.h"

namespace quire {

namespace {

// A worker beats every 250 ms; a stopped process is found well within two seconds.
constexpr auto kSilentAfter = std::chrono::milliseconds(1500);
// A process that beats but does not compute: 20 times what a step of that size took lately, and never less than this.
constexpr auto kLeastStepPatience = std::chrono::seconds(10);
constexpr auto kFirstStepPatience = std::chrono::seconds(120);

template <class... Args>
[[noreturn]] void GroupFail(fmt::format_string<Args...> format, Args&&... args) {
  throw GroupFailure(fmt::format(format, std::forward<Args>(args)...));
}

uint16_t PortOf(const std::string& endpoint) {
  const size_t colon = endpoint.rfind(':');
  return static_cast<uint16_t>(std::stoi(endpoint.substr(colon + 1)));
}

}  // namespace

WorkerGroup::WorkerGroup(Options options)
    : options_(std::move(options)),
      data_(Channel::Bind(options_.data_endpoint, options_.curve)),
      ctrl_(Channel::Bind(options_.ctrl_endpoint, options_.curve)),
      data_endpoint_(data_.bound_endpoint()),
      ranks_(static_cast<size_t>(options_.size)),
      steps_(ranks_.size()) {}

Rank WorkerGroup::RankOf(const ReceivedFrame& received) {
  for (Rank rank = 0; rank < size(); ++rank) {
    if (received.peer != Peer(rank)) continue;
    if (options_.curve == nullptr || received.user == CurveUserId(rank)) return rank;
    ++num_foreign_frames_;
  }
  return -1;
}

std::string WorkerGroup::Describe(Rank rank) const {
  const RankInfo& info = ranks_[static_cast<size_t>(rank)];
  return info.host.empty() ? fmt::format("rank {}", rank)
                           : fmt::format("rank {} (pid {} on {})", rank, info.pid, info.host);
}

void WorkerGroup::SendToAll(const Frame& frame, const char* what) {
  for (Rank rank = 0; rank < size(); ++rank) {
    if (!data_.Send(Peer(rank), frame)) GroupFail("{} does not take the {}", Describe(rank), what);
  }
}

void WorkerGroup::OnFailure(Rank rank, const FailureMessage& failure) const {
  GroupFail("{}: {}: {}", Describe(rank), failure.phase, failure.message);
}

void WorkerGroup::HandleCtrl() {
  while (const auto received = ctrl_.TryReceive()) {
    const Rank rank = RankOf(*received);
    if (rank < 0 || received->frame.header.epoch != options_.epoch) continue;
    if (!std::holds_alternative<BeatMessage>(Decode(received->frame))) continue;
    ranks_[static_cast<size_t>(rank)].last_beat = Clock::now();
    ctrl_.Send(received->peer, Encode(BeatMessage{}, options_.epoch, 0));
  }
}

void WorkerGroup::CheckLeases() {
  if (!assigned_) return;
  const auto now = Clock::now();
  for (Rank rank = 0; rank < size(); ++rank) {
    const RankInfo& info = ranks_[static_cast<size_t>(rank)];
    const auto silent = now - info.last_beat;
    if (silent <= kSilentAfter) continue;
    GroupFail("{} is silent for {} ms: stopped, hung, or cut off", Describe(rank),
              std::chrono::duration_cast<std::chrono::milliseconds>(silent).count());
  }
}

void WorkerGroup::Pump(int wake_fd, int timeout_millis, const std::function<void(Rank, const Frame&)>& handle) {
  Channel* channels[] = {&data_, &ctrl_};
  const auto before = Clock::now();
  Channel::Wait(channels, wake_fd, timeout_millis);
  // If this process itself was stopped, the beats of that time are still in the queue: read before judging.
  const bool was_away = Clock::now() - before > std::chrono::milliseconds(timeout_millis + 500);
  HandleCtrl();
  if (was_away) {
    for (RankInfo& info : ranks_) info.last_beat = Clock::now();
  }
  while (const auto received = data_.TryReceive()) {
    const Rank rank = RankOf(*received);
    if (rank >= 0 && received->frame.header.epoch == options_.epoch) handle(rank, received->frame);
  }
  check_launcher();
  CheckLeases();
  if (stopping()) GroupFail("the server is stopping");
}

void WorkerGroup::OnJoin(Rank rank, const JoinMessage& join) {
  if (join.world_size != size())
    GroupFail("rank {} on {} says {} workers were started, {} are expected", rank, join.host, join.world_size, size());
  if (join.build != kBuildVersion)
    GroupFail("rank {} on {} is version {}, the coordinator is {}", rank, join.host, join.build, kBuildVersion);
  RankInfo& info = ranks_[static_cast<size_t>(rank)];
  if (info.pid != 0) GroupFail("rank {} joined twice (pids {} and {})", rank, info.pid, join.pid);
  info.host = join.host;
  info.pid = join.pid;
  info.devices = join.devices;
  info.device_problem = join.device_problem;
  progress(fmt::format("{} joined", Describe(rank)));
}

void WorkerGroup::AwaitAll(const char* what, const std::function<void(Rank, const Message&)>& handle) {
  const auto deadline = Clock::now() + options_.start_deadline;
  std::vector<bool> answered(ranks_.size(), false);
  while (std::find(answered.begin(), answered.end(), false) != answered.end()) {
    if (Clock::now() > deadline) {
      const auto missing = std::find(answered.begin(), answered.end(), false) - answered.begin();
      GroupFail("{} did not {} within {} s", Describe(static_cast<Rank>(missing)), what,
                options_.start_deadline.count());
    }
    Pump(-1, 50, [&](Rank rank, const Frame& frame) {
      const Message message = Decode(frame);
      if (const auto* failure = std::get_if<FailureMessage>(&message)) OnFailure(rank, *failure);
      handle(rank, message);
      answered[static_cast<size_t>(rank)] = true;
    });
  }
}

void WorkerGroup::BeginEpoch(EpochId epoch) {
  options_.epoch = epoch;
  ranks_.assign(ranks_.size(), {});
  steps_ = StepsUnderWay(ranks_.size());
  assigned_ = false;
  seconds_per_token_ = 0;
}

void WorkerGroup::AwaitJoined() {
  AwaitAll("join", [&](Rank rank, const Message& message) {
    const auto* join = std::get_if<JoinMessage>(&message);
    if (join == nullptr) GroupFail("{} sent something else before it joined", Describe(rank));
    OnJoin(rank, *join);
  });
}

void WorkerGroup::Load(AssignMessage assign) {
  if (data_endpoint_.starts_with("tcp://")) assign.ctrl_port = PortOf(ctrl_.bound_endpoint());
  SendToAll(Encode(assign, options_.epoch, 0), "assignment");
  for (RankInfo& info : ranks_) info.last_beat = Clock::now();
  assigned_ = true;
  AwaitAll("load", [&](Rank rank, const Message& message) { OnLoaded(rank, message); });
}

void WorkerGroup::OnLoaded(Rank rank, const Message& message) {
  const auto* hello = std::get_if<HelloMessage>(&message);
  if (hello == nullptr) GroupFail("{} sent something else before it loaded", Describe(rank));
  if (hello->fingerprint != options_.fingerprint) GroupFail("{} loaded another model", Describe(rank));
  RankInfo& info = ranks_[static_cast<size_t>(rank)];
  if (hello->bytes_per_block < 1) GroupFail("{} sent an impossible report", Describe(rank));
  info.isa = hello->isa;
  info.bytes_per_block = hello->bytes_per_block;
  info.weight_bytes = hello->weight_bytes;
  info.available_bytes = hello->available_bytes;
  info.load_millis = hello->load_millis;
  progress(fmt::format("{} loaded {:.1f} MiB of weights in {} ms ({})", Describe(rank),
                       static_cast<double>(hello->weight_bytes) / (1 << 20), hello->load_millis, hello->isa));
}

double WorkerGroup::Start(int num_blocks, int num_host_blocks) {
  SendToAll(Encode(StartMessage{num_blocks, num_host_blocks}, options_.epoch, 0), "start");
  int64_t slowest_nanos = 0;
  AwaitAll("reserve its KV blocks", [&](Rank rank, const Message& message) {
    const auto* answer = std::get_if<ReadyMessage>(&message);
    if (answer == nullptr || answer->num_blocks != num_blocks || answer->num_host_blocks != num_host_blocks)
      GroupFail("{} did not reserve {} blocks and {} on the host", Describe(rank), num_blocks, num_host_blocks);
    slowest_nanos = std::max(slowest_nanos, answer->swap_nanos_per_block);
  });
  return static_cast<double>(slowest_nanos) * 1e-9;
}

WorkerGroup::Clock::duration WorkerGroup::StepPatience(int num_tokens) const {
  if (seconds_per_token_ == 0) return kFirstStepPatience;
  const std::chrono::duration<double> scaled(20 * seconds_per_token_ * num_tokens);
  return std::max<Clock::duration>(kLeastStepPatience, std::chrono::duration_cast<Clock::duration>(scaled));
}

void WorkerGroup::SendStep(const StepPlan& plan) {
  const Frame frame = EncodePlan(plan);
  steps_.Sent(plan, frame.header.body_hash, Clock::now());
  SendToAll(frame, "plan");
}

void WorkerGroup::OnAnswer(Rank rank, const Frame& frame) {
  Message message = Decode(frame);
  if (const auto* failure = std::get_if<FailureMessage>(&message)) OnFailure(rank, *failure);
  auto* result = std::get_if<StepResult>(&message);
  const uint32_t compute_micros = result != nullptr ? result->compute_micros : 0;
  const auto step = result != nullptr ? steps_.Answered(rank, std::move(*result)) : std::nullopt;
  if (!step)
    GroupFail("{} is out of step: it answered for step {}, not for step {}", Describe(rank), frame.header.step,
              steps_.Expected(rank));
  RankInfo& info = ranks_[static_cast<size_t>(rank)];
  info.last_step = *step;
  info.compute_micros = compute_micros;
}

StepOutcome WorkerGroup::AwaitStep() {
  QUIRE_CHECK(!steps_.empty(), "no plan is under way");
  const StepsUnderWay::Step& step = steps_.oldest();
  const auto deadline = step.begin + StepPatience(step.num_tokens);
  while (const auto missing = step.Missing()) {
    if (Clock::now() > deadline)
      GroupFail("{} did not finish step {} in time: its computation hangs", Describe(*missing), step.id);
    Pump(-1, 100, [&](Rank rank, const Frame& frame) { OnAnswer(rank, frame); });
  }
  if (const auto rank = step.Deviating())
    GroupFail("{} drew other tokens than rank 0 in step {}", Describe(*rank), step.id);
  const double per_token = step.outcome.times.compute_micros * 1e-6 / step.num_tokens;
  seconds_per_token_ = seconds_per_token_ == 0 ? per_token : 0.9 * seconds_per_token_ + 0.1 * per_token;
  return steps_.Take(Clock::now());
}

StepOutcome WorkerGroup::RunStep(const StepPlan& plan) {
  SendStep(plan);
  return AwaitStep();
}

void WorkerGroup::Idle(int wake_fd, int timeout_millis) {
  Pump(wake_fd, timeout_millis, [&](Rank rank, const Frame& frame) {
    const Message message = Decode(frame);
    if (const auto* failure = std::get_if<FailureMessage>(&message)) OnFailure(rank, *failure);
    GroupFail("{} sent a frame of kind {} that nobody asked for", Describe(rank), static_cast<int>(frame.header.kind));
  });
}

void WorkerGroup::Shutdown(const std::string& reason) {
  const Frame frame = Encode(ShutdownMessage{reason}, options_.epoch, 0);
  for (Rank rank = 0; rank < size(); ++rank) data_.Send(Peer(rank), frame);
}

}  // namespace quire

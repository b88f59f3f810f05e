#include "coordinator/cluster/group/worker_group.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "comm/base/error.h"
#include "coordinator/cluster/group/patience.h"

namespace quire {

namespace {

// Beats and answers travel on different sockets; one overtakes the other by milliseconds.
constexpr auto kLostFrameAfter = std::chrono::milliseconds(900);
// The longest that a wait takes when nothing comes, and so the longest between two looks at the workers.
constexpr auto kLongestWait = std::chrono::milliseconds(100);

// mpirun reports a dead process 0.2 s after its end; its connection may be found closed before.
constexpr auto kLauncherSpeaksWithin = std::chrono::seconds(1);

int64_t Millis(std::chrono::steady_clock::duration time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

}  // namespace

WorkerGroup::WorkerGroup(Options options, LauncherWatch* launcher)
    : options_(std::move(options)),
      launcher_(launcher),
      data_(Channel::Bind(options_.data_endpoint, options_.curve)),
      ctrl_(Channel::Bind(options_.ctrl_endpoint, options_.curve)),
      data_endpoint_(data_.bound_endpoint()),
      ranks_(static_cast<size_t>(options_.size)),
      steps_(ranks_.size()) {
  ForgetPeers();
}

void WorkerGroup::ForgetPeers() {
  peers_.clear();
  for (Rank rank = 0; rank < size(); ++rank)
    peers_.push_back(options_.adopt ? "" : WorkerIdentity(options_.epoch, rank));
}

bool WorkerGroup::IsFrom(const ReceivedFrame& received, Rank rank) {
  if (options_.curve == nullptr || received.user == CurveUserId(rank)) return true;
  ++num_foreign_frames_;
  return false;
}

Rank WorkerGroup::RankOf(const ReceivedFrame& received) {
  const auto found = std::ranges::find(peers_, received.peer);
  const auto rank = static_cast<Rank>(found - peers_.begin());
  return found != peers_.end() && IsFrom(received, rank) ? rank : -1;
}

std::string WorkerGroup::Describe(Rank rank) const {
  const RankInfo& info = ranks_[static_cast<size_t>(rank)];
  return info.host.empty() ? fmt::format("rank {}", rank)
                           : fmt::format("rank {} (pid {} on {})", rank, info.pid, info.host);
}

void WorkerGroup::SendToAll(const Frame& frame, const char* what) {
  for (Rank rank = 0; rank < size(); ++rank) {
    if (data_.Send(Peer(rank), frame)) continue;
    HearLauncher();
    GroupFail(LossCause::kDied, rank, "{} does not take the {}", Describe(rank), what);
  }
}

void WorkerGroup::HearLauncher() {
  for (const auto end = Clock::now() + kLauncherSpeaksWithin; Clock::now() < end && !Stopping();) {
    if (launcher_ != nullptr) launcher_->CheckLauncher();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void WorkerGroup::OnFailure(Rank rank, const FailureMessage& failure) const {
  GroupFail(LossCause::kReported, rank, "{}: {}: {}", Describe(rank), failure.phase, failure.message);
}

void WorkerGroup::HandleCtrl() {
  while (const auto received = ctrl_.TryReceive()) {
    if (received->frame.header.epoch != options_.epoch) continue;
    Rank rank = 0;
    while (rank < size() && received->peer != WorkerIdentity(options_.epoch, rank)) ++rank;
    if (rank == size() || !IsFrom(*received, rank)) continue;
    const Message message = Decode(received->frame);
    const auto* beat = std::get_if<BeatMessage>(&message);
    if (beat == nullptr) continue;
    RankInfo& info = ranks_[static_cast<size_t>(rank)];
    info.last_beat = Clock::now();
    info.late = std::chrono::microseconds(beat->late_micros);
    info.starved = std::chrono::microseconds(beat->starved_micros);
    CheckProgress(rank, *beat);
    const auto late = std::chrono::duration_cast<std::chrono::microseconds>(own_delay_.largest());
    ctrl_.Send(received->peer, Encode(BeatMessage{0, 0, late.count()}, options_.epoch, 0));
  }
}

/// A rank that has nothing left to do although we await its answer did not get a plan, or its answer did not arrive.
void WorkerGroup::CheckProgress(Rank rank, const BeatMessage& beat) {
  RankInfo& info = ranks_[static_cast<size_t>(rank)];
  const StepId expected = steps_.Expected(rank);
  const bool awaited = !steps_.empty() && expected <= steps_.last_sent();
  if (!awaited || beat.begun > beat.answered) {
    info.idle_since.reset();
  } else if (!info.idle_since || info.idle_before != expected) {
    info.idle_before = expected;
    info.idle_since = Clock::now();
  } else if (Clock::now() - *info.idle_since > kLostFrameAfter) {
    GroupFail(LossCause::kBadFrame, rank, "{} is idle, but step {} is not answered: a frame was lost", Describe(rank),
              expected);
  }
}

void WorkerGroup::CheckLeases() {
  if (!assigned_) return;
  const auto now = Clock::now();
  for (Rank rank = 0; rank < size(); ++rank) {
    const RankInfo& info = ranks_[static_cast<size_t>(rank)];
    const auto silent = now - info.last_beat;
    if (silent <= SilencePatience(info.late)) continue;
    GroupFail(LossCause::kSilent, rank,
              "{} is silent for {} ms: stopped, hung, or cut off (its host woke threads up to {} ms late before)",
              Describe(rank), Millis(silent), Millis(info.late));
  }
}

void WorkerGroup::Pump(int wake_fd, int timeout_millis, const std::function<void(Rank, const Frame&)>& handle) {
  Channel* channels[] = {&data_, &ctrl_};
  const auto before = Clock::now();
  Channel::Wait(channels, wake_fd, timeout_millis);
  // If this process itself was stopped, the beats of that time are still in the queue: read before judging.
  const bool was_away = Clock::now() - before > std::chrono::milliseconds(timeout_millis + 500);
  const auto previous = std::exchange(last_pump_, Clock::now());
  own_delay_.Note(kLongestWait, last_pump_ - previous, last_pump_);
  HandleCtrl();
  if (was_away) {
    for (RankInfo& info : ranks_) info.last_beat = Clock::now();
  }
  while (const auto received = data_.TryReceive()) {
    Rank rank = RankOf(*received);
    if (rank >= 0 && received->frame.header.epoch != options_.epoch) continue;
    if (rank < 0) rank = Adopt(*received);
    if (rank >= 0 && !HandleReport(rank, received->frame)) handle(rank, received->frame);
  }
  if (launcher_ != nullptr) launcher_->CheckLauncher();
  if (deaf_) GroupFail(LossCause::kDied, *deaf_, "{} does not take messages", Describe(*deaf_));
  if (listener_ != nullptr) listener_->WhileWaiting();
  CheckLeases();
  if (Stopping()) GroupFail(LossCause::kStopping, -1, "the server is stopping");
}

void WorkerGroup::Send(Rank rank, const Message& message) {
  if (!data_.Send(Peer(rank), Encode(message, options_.epoch, 0))) deaf_ = rank;
}

bool WorkerGroup::HandleReport(Rank rank, const Frame& frame) const {
  if (frame.header.kind == FrameKind::kBlocksReport) {
    const Message message = Decode(frame);
    if (listener_ != nullptr) listener_->OnBlocksReport(rank, std::get<BlocksReport>(message));
    return true;
  }
  if (frame.header.kind == FrameKind::kGrammarReady) {
    const Message message = Decode(frame);
    if (listener_ != nullptr) listener_->OnGrammarReady(rank, std::get<GrammarReady>(message));
    return true;
  }
  return false;
}

void WorkerGroup::BeginEpoch(EpochId epoch, int size) {
  options_.epoch = epoch;
  options_.size = size;
  ranks_.assign(static_cast<size_t>(size), {});
  ForgetPeers();
  deaf_.reset();
  steps_ = StepAnswers(ranks_.size());
  assigned_ = false;
  seconds_per_token_ = 0;
}

WorkerGroup::Clock::duration WorkerGroup::Starved() const {
  Clock::duration longest(0);
  for (const RankInfo& info : ranks_) longest = std::max<Clock::duration>(longest, info.starved - info.starved_before);
  return longest;
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
    GroupFail(LossCause::kDisagreed, rank, "{} is out of step: it answered for step {}, not for step {}",
              Describe(rank), frame.header.step, steps_.Expected(rank));
  RankInfo& info = ranks_[static_cast<size_t>(rank)];
  info.last_step = *step;
  info.compute_micros = compute_micros;
}

StepOutcome WorkerGroup::AwaitStep() {
  QUIRE_CHECK(!steps_.empty(), "no plan is under way");
  const StepAnswers::Step& step = steps_.oldest();
  for (RankInfo& info : ranks_) info.starved_before = info.starved;
  while (const auto missing = step.Missing()) {
    const auto starved = Starved(), elapsed = Clock::now() - step.begin;
    if (elapsed > StepPatience(seconds_per_token_, step.num_tokens, starved))
      GroupFail(
          LossCause::kHung, *missing,
          "{} did not finish step {} within {} ms: its computation hangs (a rank waited {} ms of them for a core)",
          Describe(*missing), step.id, Millis(elapsed), Millis(starved));
    Pump(-1, 100, [&](Rank rank, const Frame& frame) { OnAnswer(rank, frame); });
  }
  if (const auto rank = step.Deviating())
    GroupFail(LossCause::kDisagreed, *rank, "{} drew other tokens than rank 0 in step {}", Describe(*rank), step.id);
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
    GroupFail(LossCause::kBadFrame, rank, "{} sent a frame of kind {} that nobody asked for", Describe(rank),
              static_cast<int>(frame.header.kind));
  });
}

void WorkerGroup::Shutdown(const std::string& reason) {
  const Frame frame = Encode(ShutdownMessage{reason}, options_.epoch, 0);
  for (Rank rank = 0; rank < size(); ++rank) data_.Send(Peer(rank), frame);
}

}  // namespace quire

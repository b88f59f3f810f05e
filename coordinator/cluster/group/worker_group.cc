#include "coordinator/cluster/group/worker_group.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "comm/base/error.h"
#include "coordinator/cluster/group/patience.h"

namespace quire {

namespace {

// The longest wait in Pump when nothing happens. The wait bounds the time between two checks of the workers.
constexpr auto kLongestWait = std::chrono::milliseconds(100);
// mpirun reports a dead process 0.2 s after its end. The connection of that process may close earlier.
constexpr auto kLauncherSpeaksWithin = std::chrono::seconds(1);

int64_t Millis(std::chrono::steady_clock::duration time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

uint16_t PortOf(const std::string& endpoint) {
  const size_t colon = endpoint.rfind(':');
  return static_cast<uint16_t>(std::stoi(endpoint.substr(colon + 1)));
}

}  // namespace

WorkerGroup::WorkerGroup(Options options, LauncherWatch* launcher)
    : options_(std::move(options)),
      launcher_(launcher),
      data_(Channel::Bind(options_.data_endpoint, options_.ranks.curve)),
      ctrl_(Channel::Bind(options_.ctrl_endpoint, options_.ranks.curve)),
      data_endpoint_(data_.bound_endpoint()),
      roster_(options_.ranks),
      steps_(static_cast<size_t>(size())) {}

void WorkerGroup::SendToAll(const Frame& frame, const char* what) {
  for (Rank rank = 0; rank < size(); ++rank) {
    if (data_.Send(roster_.Peer(rank), frame)) continue;
    HearLauncher();
    roster_.Fail(LossCause::kDied, rank, "{} does not take the {}", roster_.Describe(rank), what);
  }
}

void WorkerGroup::HearLauncher() {
  for (const auto end = Clock::now() + kLauncherSpeaksWithin; Clock::now() < end && !Stopping();) {
    if (launcher_ != nullptr) launcher_->CheckLauncher();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void WorkerGroup::OnFailure(Rank rank, const FailureMessage& failure) const {
  GroupFailure loss(LossCause::kReported, rank, roster_.info(rank).host,
                    fmt::format("{}: {}: {}", roster_.Describe(rank), failure.phase, failure.message));
  loss.by_settings = failure.by_settings;
  throw loss;
}

void WorkerGroup::HandleCtrl() {
  while (const auto received = ctrl_.TryReceive()) {
    const Rank rank = roster_.SenderOfBeat(*received);
    if (rank < 0) continue;
    const Message message = Decode(received->frame);
    const auto* beat = std::get_if<BeatMessage>(&message);
    if (beat == nullptr) continue;
    RankInfo& info = roster_.info(rank);
    info.last_beat = Clock::now();
    info.beats = true;
    info.late = std::chrono::microseconds(beat->late_micros);
    info.starved = std::chrono::microseconds(beat->starved_micros);
    CheckProgress(rank, *beat);
    const auto late = std::chrono::duration_cast<std::chrono::microseconds>(own_delay_.largest());
    ctrl_.Send(received->peer, Encode(BeatMessage{0, 0, late.count()}, roster_.epoch(), 0));
  }
}

/// Detects lost frames: if a rank is idle although it owes an answer, then either the plan or the answer was
/// lost.
void WorkerGroup::CheckProgress(Rank rank, const BeatMessage& beat) {
  RankInfo& info = roster_.info(rank);
  const StepId expected = steps_.Expected(rank);
  const bool awaited = !steps_.empty() && expected <= steps_.last_sent();
  if (!awaited || beat.begun > beat.answered) {
    info.idle_since.reset();
  } else if (!info.idle_since || info.idle_before != expected) {
    info.idle_before = expected;
    info.idle_since = Clock::now();
    info.starved_at_idle = info.starved;
  } else if (Clock::now() - *info.idle_since > LostFramePatience(info.late, info.starved - info.starved_at_idle)) {
    roster_.Fail(LossCause::kBadFrame, rank, "{} is idle, but step {} is not answered: a frame was lost",
                 roster_.Describe(rank), expected);
  }
}

void WorkerGroup::CheckLeases() {
  if (!assigned_) return;
  const auto now = Clock::now();
  for (Rank rank = 0; rank < size(); ++rank) {
    const RankInfo& info = roster_.info(rank);
    const auto silent = now - info.last_beat;
    if (silent <= (info.beats ? SilencePatience(info.late) : FirstBeatPatience(own_delay_.largest()))) continue;
    roster_.Fail(LossCause::kSilent, rank,
                 "{} is silent for {} ms: stopped, hung, or cut off (its host woke threads up to {} ms late before)",
                 roster_.Describe(rank), Millis(silent), Millis(info.late));
  }
}

void WorkerGroup::Pump(int wake_fd, int timeout_millis, const std::function<void(Rank, const Frame&)>& handle) {
  Channel* channels[] = {&data_, &ctrl_};
  const auto before = Clock::now();
  Channel::Wait(channels, wake_fd, timeout_millis);
  // If this process was stopped for a while, heartbeats of that time are still queued. Read them before judging the
  // ranks.
  const bool was_away = Clock::now() - before > std::chrono::milliseconds(timeout_millis + 500);
  const auto previous = std::exchange(last_pump_, Clock::now());
  own_delay_.Note(kLongestWait, last_pump_ - previous, last_pump_);
  HandleCtrl();
  if (was_away) {
    for (RankInfo& info : roster_.infos()) info.last_beat = Clock::now();
  }
  while (const auto received = data_.TryReceive()) {
    const Rank rank = roster_.SenderOf(*received);
    if (rank >= 0 && !HandleReport(rank, received->frame)) handle(rank, received->frame);
  }
  if (launcher_ != nullptr) launcher_->CheckLauncher();
  if (deaf_) roster_.Fail(LossCause::kDied, *deaf_, "{} does not take messages", roster_.Describe(*deaf_));
  if (listener_ != nullptr) listener_->WhileWaiting();
  CheckLeases();
  if (Stopping()) roster_.Fail(LossCause::kStopping, -1, "the server is stopping");
}

void WorkerGroup::Send(Rank rank, const Message& message) {
  if (!data_.Send(roster_.Peer(rank), Encode(message, roster_.epoch(), 0))) deaf_ = rank;
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
  if (frame.header.kind == FrameKind::kAdapterReady) {
    const Message message = Decode(frame);
    if (listener_ != nullptr) listener_->OnAdapterReady(rank, std::get<AdapterReady>(message));
    return true;
  }
  return false;
}

void WorkerGroup::BeginEpoch(EpochId epoch, int size) {
  roster_.BeginEpoch(epoch, size);
  deaf_.reset();
  steps_ = StepAnswers(static_cast<size_t>(size));
  awaited_step_ = 0;
  assigned_ = false;
  usual_time_ = {};
}

void WorkerGroup::AwaitAll(const char* what, std::chrono::seconds patience,
                           const std::function<void(Rank, const Message&)>& handle) {
  const auto begin = last_pump_ = Clock::now();  // the time before is no delay
  std::vector<bool> answered(static_cast<size_t>(size()), false);
  while (!std::ranges::all_of(answered, std::identity())) {
    if (const auto waited = Clock::now() - begin; waited > patience + DelayOfStart(own_delay_.largest())) {
      const auto missing = static_cast<Rank>(std::ranges::find(answered, false) - answered.begin());
      roster_.Fail(LossCause::kNotStarted, missing,
                   "{} did not {} within {} s (this host woke threads up to {} ms late)", roster_.Describe(missing),
                   what, Millis(waited) / 1000, Millis(own_delay_.largest()));
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
      roster_.Fail(LossCause::kBadFrame, rank, "{} sent something else before it joined", roster_.Describe(rank));
    roster_.Joined(rank, *join);
  });
}

void WorkerGroup::Load(AssignMessage assign) {
  if (data_endpoint_.starts_with("tcp://")) assign.ctrl_port = PortOf(ctrl_.bound_endpoint());
  SendToAll(Encode(assign, roster_.epoch(), 0), "assignment");
  for (RankInfo& info : roster_.infos()) {
    info.last_beat = Clock::now();
    info.beats = false;
  }
  assigned_ = true;
  roster_.Close();
  AwaitAll("load", options_.load_deadline, [&](Rank rank, const Message& message) {
    const auto* hello = std::get_if<HelloMessage>(&message);
    if (hello == nullptr)
      roster_.Fail(LossCause::kBadFrame, rank, "{} sent something else before it loaded", roster_.Describe(rank));
    roster_.Loaded(rank, *hello);
  });
}

double WorkerGroup::Start(const StartMessage& start) {
  grammar_memory_ = start.grammars;
  if (options_.vocabulary != nullptr) SendToAll(Encode(*options_.vocabulary, roster_.epoch(), 0), "vocabulary");
  SendToAll(Encode(start, roster_.epoch(), 0), "start");
  int64_t slowest_nanos = 0;
  AwaitAll("reserve its KV blocks", options_.load_deadline, [&](Rank rank, const Message& message) {
    const auto* answer = std::get_if<ReadyMessage>(&message);
    if (answer == nullptr || answer->num_blocks != start.num_blocks ||
        answer->num_host_blocks != start.num_host_blocks || answer->state_blocks != start.state_blocks)
      roster_.Fail(LossCause::kNotStarted, rank, "{} did not reserve {} blocks and {} on the host",
                   roster_.Describe(rank), start.num_blocks, start.num_host_blocks);
    slowest_nanos = std::max(slowest_nanos, answer->swap_nanos_per_block);
  });
  return static_cast<double>(slowest_nanos) * 1e-9;
}

WorkerGroup::Clock::duration WorkerGroup::Starved() const {
  Clock::duration longest(0);
  for (const RankInfo& info : roster_.infos())
    longest = std::max<Clock::duration>(longest, info.starved - info.starved_before);
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
  const StepTimes times = result != nullptr ? StepTimes{result->compute_micros, result->swap_micros} : StepTimes();
  const auto step = result != nullptr ? steps_.Answered(rank, std::move(*result)) : std::nullopt;
  if (!step)
    roster_.Fail(LossCause::kDisagreed, rank, "{} is out of step: it answered for step {}, not for step {}",
                 roster_.Describe(rank), frame.header.step, steps_.Expected(rank));
  RankInfo& info = roster_.info(rank);
  info.last_step = *step;
  info.compute_micros = times.compute_micros;
  if (listener_ != nullptr) listener_->OnStepAnswered(rank, *step, times);
}

std::optional<StepOutcome> WorkerGroup::AwaitStepFor(std::chrono::milliseconds most) {
  QUIRE_CHECK(!steps_.empty(), "no plan is under way");
  const StepAnswers::Step& step = steps_.oldest();
  const auto end = Clock::now() + most;
  if (std::exchange(awaited_step_, step.id) != step.id) {
    for (RankInfo& info : roster_.infos()) info.starved_before = info.starved;
  }
  while (const auto missing = step.Missing()) {
    if (Clock::now() >= end) return std::nullopt;
    const auto starved = Starved(), elapsed = Clock::now() - step.begin;
    if (elapsed > StepPatience(usual_time_.Of(step.size), starved))
      roster_.Fail(
          LossCause::kHung, *missing,
          "{} did not finish step {} within {} ms: its computation hangs (a rank waited {} ms of them for a core)",
          roster_.Describe(*missing), step.id, Millis(elapsed), Millis(starved));
    Pump(-1, 100, [&](Rank rank, const Frame& frame) { OnAnswer(rank, frame); });
  }
  if (const auto rank = step.Deviating())
    roster_.Fail(LossCause::kDisagreed, *rank, "{} drew other tokens than rank 0 in step {}", roster_.Describe(*rank),
                 step.id);
  usual_time_.Observe(step.size, step.outcome.times.compute_micros * 1e-6);
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
    roster_.Fail(LossCause::kBadFrame, rank, "{} sent a frame of kind {} that nobody asked for", roster_.Describe(rank),
                 static_cast<int>(frame.header.kind));
  });
}

void WorkerGroup::Shutdown(const std::string& reason) {
  const Frame frame = Encode(ShutdownMessage{reason}, roster_.epoch(), 0);
  for (Rank rank = 0; rank < size(); ++rank) data_.Send(roster_.Peer(rank), frame);
}

}  // namespace quire

#include "coordinator/cluster/group/engine_loop.h"

#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>

#include "comm/base/error.h"
#include "coordinator/log/log.h"

namespace quire {

namespace {

using std::chrono::milliseconds;

// The pauses before successive restarts of lost workers. A completed step begins the list anew. If the list is used up
// without a completed step, the group is given up.
constexpr milliseconds kBackOff[] = {milliseconds(0),    milliseconds(250),  milliseconds(500),
                                     milliseconds(1000), milliseconds(1000), milliseconds(2000)};

// A restart that takes longer than this counts as slow.
constexpr milliseconds kLongRestart(3000);

// The pause before a group that was given up is started again. The pause doubles each time, up to kLongestPause.
constexpr milliseconds kFirstReturn(5000), kLongestPause(60'000);

/// The most seconds that a replacement of the workers waits for cached blocks to be written to the disk.
constexpr double kMostSaving = 3;

// The longest time for which one round runs tasks. The inbox may hold thousands of tasks, while workers wait for
// heartbeats and requests wait for tokens.
constexpr milliseconds kLongestDrain(50);

// The longest time for which one round waits for a step. The step of an encoder's long text may take many seconds, and
// meanwhile requests end, time out and arrive, and /metrics and /admin are asked.
constexpr milliseconds kStepWait(200);

/// Returns the error that has ended an epoch as a GroupFailure.
GroupFailure AsGroupFailure(const std::exception& error) {
  const auto* failure = dynamic_cast<const GroupFailure*>(&error);
  return failure != nullptr ? *failure : GroupFailure(LossCause::kBadFrame, -1, "", error.what());
}

}  // namespace

EngineLoop::EngineLoop(Engine& engine, WorkerGroup& group, EngineLoopHost& host)
    : engine_(engine),
      group_(group),
      host_(host),
      wake_fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      thread_([this, name = LogName::Current()] {
        const LogName named(name);
        Run();
      }) {}

EngineLoop::~EngineLoop() {
  Stop();
  ::close(wake_fd_);
}

void EngineLoop::Stop() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  Post([](Engine&) {});
  thread_.join();
  engine_.DropAll();
  const std::lock_guard lock(mutex_);
  inbox_.clear();
}

double EngineLoop::Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void EngineLoop::Wake() {
  const uint64_t one = 1;
  (void)!::write(wake_fd_, &one, sizeof(one));
}

void EngineLoop::Post(std::function<void(Engine&)> task) {
  {
    const std::lock_guard lock(mutex_);
    inbox_.push_back(std::move(task));
  }
  Wake();
}

void EngineLoop::ReplaceWorkers(std::function<void()> replace, std::function<void(const std::string&)> done) {
  Post([this, replace = std::move(replace), done = std::move(done)](Engine&) {
    replacements_.push_back({replace, done, Now()});
  });
}

void EngineLoop::SetPaused(bool paused) {
  paused_ = paused;
  Wake();
}

void EngineLoop::DrainInbox() {
  uint64_t count = 0;
  (void)!::read(wake_fd_, &count, sizeof(count));
  const auto end = std::chrono::steady_clock::now() + kLongestDrain;
  while (const auto task = NextTask()) {
    task(engine_);
    if (std::chrono::steady_clock::now() < end) continue;
    Wake();  // another round for the remaining tasks
    return;
  }
}

std::function<void(Engine&)> EngineLoop::NextTask() {
  const std::lock_guard lock(mutex_);
  if (inbox_.empty()) return nullptr;
  auto task = std::move(inbox_.front());
  inbox_.pop_front();
  return task;
}

void EngineLoop::RunUntilStopped() {
  while (!stopping_) {
    const double now = profile_.Record("tasks", [this] {
      DrainInbox();
      host_.BetweenSteps(engine_);
      const double begin = Now();
      engine_.ExpireOverdue(begin);
      return begin;
    });
    if (MayReplace(now)) Replace();
    // The workers compute the second planned step while this thread commits and delivers the first.
    while (!paused_ && replacements_.empty()) {
      const StepPlan* plan = profile_.Record("plan", [&] { return engine_.NextPlan(now); });
      if (plan == nullptr) break;
      profile_.Record("send", [&] { group_.SendStep(*plan); });
      steps_.Sent(*plan);
    }
    if (engine_.num_outstanding() == 0) {
      group_.Idle(wake_fd_, 100);
      continue;
    }
    const auto outcome = profile_.Record("wait", [this] { return group_.AwaitStepFor(kStepWait); });
    if (!outcome) continue;
    const auto& [tokens, scores, guesses, times] = *outcome;
    if (!engine_.Fits(tokens) || !engine_.Fits(scores) || !engine_.Fits(guesses))
      throw GroupFailure(LossCause::kDisagreed, 0, "", "rank 0 answered for other sequences than it was asked");
    profile_.Record("commit", [&, this] { engine_.CommitStep(tokens, times, scores, guesses); });
    steps_.Done(times.compute_micros * 1e-6);
    fruitless_epochs_ = 0;
  }
}

bool EngineLoop::MayReplace(double now) const {
  if (replacements_.empty() || engine_.num_outstanding() > 0) return false;
  return !host_.IsSaving() || now >= replacements_.front().asked_seconds + kMostSaving;
}

void EngineLoop::Replace() {
  const Replacement replacement = std::move(replacements_.front());
  replacements_.erase(replacements_.begin());
  recovering_ = true;
  try {
    replacement.replace();
  } catch (const std::exception& error) {
    replacement.done(error.what());
    throw GroupFailure(LossCause::kNotStarted, -1, "", std::string("the workers were to be replaced: ") + error.what());
  }
  recovering_ = false;
  replacement.done("");
}

/// Waits for `time`, and meanwhile runs the tasks in the inbox.
void EngineLoop::WaitFor(milliseconds time) {
  for (const auto end = std::chrono::steady_clock::now() + time;
       std::chrono::steady_clock::now() < end && !stopping_;) {
    WhileWaiting();
    std::this_thread::sleep_for(milliseconds(10));
  }
}

/// Restarts the workers until they run, and then returns true. Returns false when kBackOff is used up without a
/// completed step, or when the loop stops.
bool EngineLoop::Recover(GroupFailure& failure) {
  recovering_ = true;
  lost_at_ = std::chrono::steady_clock::now();
  losses_.Lost(engine_.epoch(), failure);
  while (!stopping_ && fruitless_epochs_ < static_cast<int>(std::size(kBackOff))) {
    spdlog::warn("the worker group is lost: {}; starting the workers again", failure.what());
    WaitFor(kBackOff[fruitless_epochs_]);
    ++fruitless_epochs_;
    try {
      host_.Relaunch(failure);
      HaveRecovered();
      return true;
    } catch (const std::exception& error) {
      failure = AsGroupFailure(error);
    }
  }
  return false;
}

void EngineLoop::HaveRecovered() {
  ++num_recoveries_;
  losses_.Recovered();
  lost_at_.reset();
  recovering_ = false;
  serving_ = true;
}

/// Tries again and again to start workers that were given up, until they serve or the loop stops. Meanwhile requests go
/// to other replicas, or end with an error.
void EngineLoop::AwaitReturn(GroupFailure& failure) {
  for (milliseconds pause = kFirstReturn; !stopping_; pause = std::min(2 * pause, kLongestPause)) {
    WaitFor(pause);
    if (stopping_) return;
    try {
      if (!host_.Return(failure)) continue;
      fruitless_epochs_ = 0;
      return HaveRecovered();
    } catch (const std::exception& error) {
      failure = AsGroupFailure(error);
      spdlog::warn("the workers do not start yet: {}", failure.what());
    }
  }
}

void EngineLoop::Abandon(const std::string& message) {
  host_.Abandon(engine_);
  engine_.FailAll(message);
}

/// Runs the tasks in the inbox while workers start or are given up, so that status queries and cancellations are not
/// delayed. If a restart takes long, moves requests to other replicas. While the workers are given up, also ends the
/// requests that stay.
void EngineLoop::WhileWaiting() {
  if (!recovering_ && serving_) return;
  DrainInbox();
  if (!serving_) {
    Abandon("the worker group is lost");
  } else if (lost_at_ && std::chrono::steady_clock::now() - *lost_at_ > kLongRestart) {
    host_.Displace(engine_);
  }
}

void EngineLoop::Run() {
  group_.set_listener(this);
  while (!stopping_) {
    try {
      RunUntilStopped();
    } catch (const std::exception& error) {  // GroupFailure, or a frame that does not decode
      GroupFailure failure = AsGroupFailure(error);
      if (stopping_ || Recover(failure) || stopping_) continue;
      serving_ = recovering_ = false;
      Abandon("the workers were lost while this request ran");  // the log and the admin port name the cause
      host_.OnLost(failure.what());
      AwaitReturn(failure);
    }
  }
  for (const Replacement& replacement : replacements_) replacement.done("the server is stopping");
  group_.set_listener(nullptr);
}

}  // namespace quire

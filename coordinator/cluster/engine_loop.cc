#include "coordinator/cluster/engine_loop.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>

#include "comm/error.h"

namespace quire {

namespace {
constexpr int kMaxFruitlessEpochs = 3;
constexpr auto kBackOff = std::chrono::seconds(1);
}  // namespace

EngineLoop::EngineLoop(Engine& engine, WorkerGroup& group, Recovery recovery)
    : engine_(engine),
      group_(group),
      recovery_(std::move(recovery)),
      wake_fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      thread_([this] { Run(); }) {}

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

void EngineLoop::Post(std::function<void(Engine&)> task) {
  {
    const std::lock_guard lock(mutex_);
    inbox_.push_back(std::move(task));
  }
  const uint64_t one = 1;
  (void)!::write(wake_fd_, &one, sizeof(one));
}

void EngineLoop::DrainInbox() {
  uint64_t count = 0;
  (void)!::read(wake_fd_, &count, sizeof(count));
  std::vector<std::function<void(Engine&)>> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(inbox_);
  }
  for (const auto& task : tasks) task(engine_);
}

void EngineLoop::RunUntilStopped() {
  group_.stopping = [this] { return stopping_.load(); };
  while (!stopping_) {
    DrainInbox();
    recovery_.between_steps(engine_);
    const double now = Now();
    engine_.ExpireOverdue(now);
    // The workers go on with the second plan while the first one's tokens are taken over and delivered here.
    while (const StepPlan* plan = engine_.NextPlan(now)) group_.SendStep(*plan);
    if (engine_.num_outstanding() == 0) {
      group_.Idle(wake_fd_, 100);
      continue;
    }
    const auto [tokens, times] = group_.AwaitStep();
    if (!engine_.Fits(tokens)) throw GroupFailure("rank 0 answered for other sequences than it was asked");
    engine_.CommitStep(tokens, times);
    fruitless_epochs_ = 0;
  }
}

/// Tries until the workers run again; not without end when they never get to compute a step.
bool EngineLoop::Recover(std::string& reason) {
  recovering_ = true;
  while (recovery_.relaunch && !stopping_ && fruitless_epochs_ < kMaxFruitlessEpochs) {
    recovery_.on_lost(reason);
    std::this_thread::sleep_for(fruitless_epochs_ * kBackOff);
    ++fruitless_epochs_;
    try {
      recovery_.relaunch();
      ++num_recoveries_;
      recovering_ = false;
      return true;
    } catch (const std::exception& failure) {
      reason = failure.what();
    }
  }
  return false;
}

void EngineLoop::Abandon(const std::string& message) {
  if (recovery_.abandon) recovery_.abandon(engine_);
  engine_.FailAll(message);
}

void EngineLoop::Run() {
  for (bool recovered = true; recovered && !stopping_;) {
    try {
      RunUntilStopped();
    } catch (const std::exception& failure) {  // GroupFailure, or a frame that does not decode
      std::string reason = failure.what();
      recovered = !stopping_ && Recover(reason);
      if (recovered || stopping_) continue;
      serving_ = false;
      Abandon("the workers were lost while this request ran");  // the log and the admin see which and why
      recovery_.on_end(reason);
    }
  }
  // Requests that come while the server winds down are answered, too.
  while (!stopping_) {
    DrainInbox();
    Abandon("the worker group is lost");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace quire

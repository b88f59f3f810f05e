#include "coordinator/cluster/engine_loop.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>

#include "comm/error.h"

namespace quire {

EngineLoop::EngineLoop(Engine& engine, WorkerGroup& group, std::function<void(const std::string&)> on_failure)
    : engine_(engine),
      group_(group),
      on_failure_(std::move(on_failure)),
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
  }
}

void EngineLoop::Run() {
  try {
    RunUntilStopped();
  } catch (const std::exception& failure) {  // GroupFailure, or a frame that does not decode
    if (stopping_) return;
    serving_ = false;
    engine_.FailAll("the workers were lost while this request ran");  // the log and the admin see which and why
    on_failure_(failure.what());
  }
  // Requests that come while the server winds down are answered, too.
  while (!stopping_) {
    DrainInbox();
    engine_.FailAll("the worker group is lost");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace quire

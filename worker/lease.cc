#include "worker/lease.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>

#include "comm/channel.h"
#include "worker/worker.h"

namespace quire {

using Clock = std::chrono::steady_clock;

namespace {
constexpr auto kBeatEvery = std::chrono::milliseconds(250);
constexpr auto kOrphanedAfter = std::chrono::seconds(3);
}  // namespace

Lease::Lease(std::string ctrl_endpoint, EpochId epoch, Rank rank, const WorkerKeys* keys)
    : endpoint_(std::move(ctrl_endpoint)), epoch_(epoch), rank_(rank), keys_(keys), thread_([this] { RunGuarded(); }) {}

Lease::~Lease() {
  stopping_ = true;
  thread_.join();
}

void Lease::RunGuarded() {
  try {
    Run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "quire-worker: rank {}: lease: {}\n", rank_, error.what());
    ::_exit(kExitOrphaned);
  }
}

void Lease::Run() {
  Channel channel = Channel::Connect(endpoint_, WorkerIdentity(epoch_, rank_), keys_);
  auto last_heard = Clock::now();
  auto next_beat = Clock::now();
  while (!stopping_) {
    if (Clock::now() >= next_beat) {
      const StepId answered = answered_.load(std::memory_order_relaxed);  // first: it is never ahead of what was begun
      channel.Send("", Encode(BeatMessage{begun_.load(std::memory_order_relaxed), answered}, epoch_, 0));
      next_beat = Clock::now() + kBeatEvery;
    }
    Channel* channels[] = {&channel};
    Channel::Wait(channels, -1, 50);
    while (channel.TryReceive()) last_heard = Clock::now();
    if (Clock::now() - last_heard > kOrphanedAfter) {
      fmt::print(stderr, "quire-worker: rank {}: no word from the coordinator for 3 s; stopping\n", rank_);
      ::_exit(kExitOrphaned);
    }
  }
}

}  // namespace quire

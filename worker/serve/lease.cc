#include "worker/serve/lease.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "comm/base/scheduling_delay.h"
#include "comm/wire/channel.h"
#include "comm/wire/messages.h"
#include "worker/serve/worker.h"
#include "worker/serve/worker_log.h"

namespace quire {

using Clock = std::chrono::steady_clock;

namespace {
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr milliseconds kBeatEvery(250), kWait(50), kLongSleep(500);
constexpr milliseconds kOrphanedAfter(3000), kMostForBusyness(10'000);
// The time in which the first answer must come. It is long because the coordinator may serve other connections first.
// The coordinator waits equally long for the first heartbeat.
constexpr milliseconds kFirstAnswer(20'000);

int64_t Micros(Clock::duration time) { return std::chrono::duration_cast<microseconds>(time).count(); }

/// Returns the time to wait for the answer to a heartbeat: `usual` plus an allowance of 4 * late (at most
/// kMostForBusyness). `late` is how late threads of this worker or the coordinator have recently woken up. A heartbeat
/// and its answer need four wake-ups: a thread and its socket's thread, in the worker and in the coordinator.
Clock::duration Patience(Clock::duration usual, Clock::duration late) {
  return usual + std::min<Clock::duration>(4 * late, kMostForBusyness);
}
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
    WorkerLog(LogLevel::kError, rank_, fmt::format("lease: {}", error.what()));
    ::_exit(kExitOrphaned);
  }
}

void Lease::Run() {
  Channel channel = Channel::Connect(endpoint_, WorkerIdentity(epoch_, rank_), keys_);
  auto last_heard = Clock::now();
  bool heard = false;
  auto next_beat = Clock::now();
  RecentDelay own;
  Clock::duration theirs(0);
  while (!stopping_) {
    if (Clock::now() >= next_beat) {
      const StepId answered = answered_.load(std::memory_order_relaxed);  // read before begun_, which it never exceeds
      const BeatMessage beat = {begun_.load(std::memory_order_relaxed), answered, Micros(own.largest()),
                                StarvedMicros()};
      channel.Send("", Encode(beat, epoch_, 0));
      next_beat = Clock::now() + kBeatEvery;
    }
    Channel* channels[] = {&channel};
    const auto asked = Clock::now();
    Channel::Wait(channels, -1, static_cast<int>(kWait.count()));
    const auto woken = Clock::now();
    own.Note(kWait, woken - asked, woken);
    while (const auto received = channel.TryReceive()) {
      last_heard = woken;
      heard = true;
      const Message message = Decode(received->frame);
      if (const auto* beat = std::get_if<BeatMessage>(&message)) theirs = microseconds(beat->late_micros);
    }
    // If this thread woke up late, the socket's thread may have been late, too, and an answer may still wait in the
    // socket.
    if (woken - asked > kWait + kLongSleep) last_heard = std::max(last_heard, woken - kBeatEvery);
    const auto late = std::max(own.largest(), theirs);
    if (woken - last_heard > Patience(heard ? kOrphanedAfter : kFirstAnswer, late)) {
      WorkerLog(LogLevel::kError, rank_,
                fmt::format("no word from the coordinator for {} ms, where threads are woken up to {} ms late; "
                            "stopping",
                            Micros(woken - last_heard) / 1000, Micros(late) / 1000));
      ::_exit(kExitOrphaned);
    }
  }
}

}  // namespace quire

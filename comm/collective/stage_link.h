#pragma once

#include <sched.h>
#include <time.h>

#include <cstddef>
#include <span>

namespace quire {

/// Carries bytes between the stages of a pipeline, among the ranks that have the same index within their stages: from
/// each stage to the next, and from the last stage to every other stage. One thread of each rank makes all calls.
class StageLink {
 public:
  virtual ~StageLink() = default;

  virtual int stage() const = 0;  // the stage that this rank belongs to; 0 is the first stage
  virtual int num_stages() const = 0;
  bool is_last() const { return stage() + 1 == num_stages(); }

  /// Sends bytes to a stage. May wait until stage `to` receives. The caller may overwrite the bytes after the call.
  virtual void Send(int to, std::span<const std::byte> bytes) = 0;
  /// True when bytes from stage `from` have come, and Receive has not taken them yet.
  virtual bool HasBytes(int from) = 0;
  /// Waits for bytes from a stage, and fills `bytes` with them.
  virtual void Receive(int from, std::span<std::byte> bytes) = 0;
};

/// Paces a wait that may last as long as another stage computes. Call Pause() between two checks. A short wait spins; a
/// long wait yields its core to ranks that compute.
class StagePatience {
 public:
  void Pause() {
    if (++pauses_ < kSpins) {
      __builtin_ia32_pause();
    } else if (pauses_ < kSpins + kYields) {
      ::sched_yield();
    } else {
      const timespec nap{0, kNapNanos};
      ::nanosleep(&nap, nullptr);
    }
  }

 private:
  static constexpr int kSpins = 1000, kYields = 50;
  static constexpr long kNapNanos = 30'000;
  int pauses_ = 0;
};

}  // namespace quire

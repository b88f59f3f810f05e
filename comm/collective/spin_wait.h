#pragma once

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "comm/collective/collective.h"

namespace quire {

/// Pauses of a waiting rank before it yields its core, where every rank may have a core of its own.
constexpr int kSpins = 2000;

/// Returns how many pauses a waiting rank makes before it yields its core, in a group of `ranks` ranks. A peer with a
/// core of its own answers within microseconds. If the machine has fewer cores than ranks, the peer may need this
/// rank's core, so the rank yields it sooner.
inline int SpinsAmong(int ranks) { return ranks <= ::get_nprocs() ? kSpins : 64; }

/// Waits until condition() is true. After `max_spins` pauses, yields the core between two checks, and throws
/// CollectiveAborted once the abort flag is set.
template <class Condition>
void SpinUntil(Condition condition, const std::atomic<uint64_t>& abort_word, int max_spins) {
  for (int spins = 0; !condition();) {
    if (spins < max_spins) {
      ++spins;
      __builtin_ia32_pause();
    } else {
      if (abort_word.load(std::memory_order_acquire) != 0) throw CollectiveAborted("another rank is gone");
      ::sched_yield();
    }
  }
}

/// A count in shared memory that one rank raises and other ranks of its host wait for. Where the host has fewer
/// processors than ranks, waiting ranks sleep at once. Yielding would leave the choice of the next thread to the
/// scheduler, which often runs the waiting rank again, or leaves a processor without the thread that could use it.
struct AwaitedCount {
  std::atomic<uint64_t> count;
  std::atomic<uint32_t> sleepers;  // number of ranks that sleep, or are about to

  /// Sets the count, and wakes the ranks that sleep.
  void RaiseAndWake(uint64_t to) {
    count.store(to, std::memory_order_seq_cst);
    if (sleepers.load(std::memory_order_seq_cst) != 0)
      ::syscall(SYS_futex, word(), FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
  }

  /// Sleeps until the count is above `past`. Throws CollectiveAborted once the abort flag is set.
  void SleepUntilAbove(uint64_t past, const std::atomic<uint64_t>& abort_word) {
    constexpr timespec kLook{0, 5'000'000};  // the abort flag wakes nobody, so it is looked at this often
    for (uint64_t now; (now = count.load(std::memory_order_acquire)) <= past;) {
      if (abort_word.load(std::memory_order_acquire) != 0) throw CollectiveAborted("another rank is gone");
      sleepers.fetch_add(1, std::memory_order_seq_cst);
      ::syscall(SYS_futex, word(), FUTEX_WAIT, static_cast<uint32_t>(now), &kLook, nullptr, 0);
      sleepers.fetch_sub(1, std::memory_order_relaxed);
    }
  }

 private:
  uint32_t* word() { return reinterpret_cast<uint32_t*>(&count); }  // the count's lower half, as x86 orders bytes
};

}  // namespace quire

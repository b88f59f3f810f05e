#pragma once

#include <sched.h>
#include <sys/sysinfo.h>

#include <atomic>
#include <cstdint>

#include "comm/collective/collective.h"

namespace quire {

/// Returns how many pauses a waiting rank makes before it yields its core, in a group of `ranks` ranks. A peer with a
/// core of its own answers within microseconds. If the machine has fewer cores than ranks, the peer may need this
/// rank's core, so the rank yields it sooner.
inline int SpinsAmong(int ranks) { return ranks <= ::get_nprocs() ? 2000 : 64; }

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

}  // namespace quire

#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

#include "comm/collective/collective.h"

namespace quire {

/// Waits until condition() holds. Peers on cores of their own answer within microseconds; past that the core is given
/// away, because there may be more ranks than cores. Throws CollectiveAborted once the abort word is set.
template <class Condition>
void SpinUntil(Condition condition, const std::atomic<uint64_t>& abort_word) {
  constexpr int kSpins = 2000;
  for (int spins = 0; !condition();) {
    if (spins < kSpins) {
      ++spins;
      __builtin_ia32_pause();
    } else {
      if (abort_word.load(std::memory_order_acquire) != 0) throw CollectiveAborted("another rank is gone");
      ::sched_yield();
    }
  }
}

}  // namespace quire

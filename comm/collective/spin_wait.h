#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

#include "comm/collective/collective.h"

namespace quire {

/// Waits until condition() holds. Peers on cores of their own answer within microseconds; every few of them the core is
/// offered to others, because there may be more ranks than cores. Throws CollectiveAborted once the abort word is set.
template <class Condition>
void SpinUntil(Condition condition, const std::atomic<uint64_t>& abort_word) {
  constexpr int kSpinsBetweenYields = 64;
  for (int spins = 1; !condition(); ++spins) {
    if (spins % kSpinsBetweenYields != 0) {
      __builtin_ia32_pause();
    } else {
      if (abort_word.load(std::memory_order_acquire) != 0) throw CollectiveAborted("another rank is gone");
      ::sched_yield();
    }
  }
}

}  // namespace quire

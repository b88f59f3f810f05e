#pragma once

#include <sys/resource.h>

#include <cerrno>

namespace quire {

/// Lowers the calling thread's scheduling weight to about a third (nice + 5) until the thread ends. Threads that handle
/// what clients or peers send call this function, because a flood of requests must not take processor time from the
/// workers.
inline void GiveWayToWorkers() {
  constexpr int kNicer = 5;
  errno = 0;
  const int nice = ::getpriority(PRIO_PROCESS, 0);  // for PRIO_PROCESS, 0 means the calling thread
  if (errno == 0) (void)::setpriority(PRIO_PROCESS, 0, nice + kNicer);
}

/// Lowers the scheduling weight of the calling thread to a tenth (nice 10) until the thread ends. Threads that prepare
/// data for a worker call this function, because the worker computes steps meanwhile.
inline void WorkBesideSteps() {
  constexpr int kNiceness = 10;
  (void)::setpriority(PRIO_PROCESS, 0, kNiceness);  // on Linux, 0 means the calling thread alone
}

}  // namespace quire

#pragma once

#include <sys/resource.h>

#include <cerrno>

namespace quire {

/// Whoever floods a port or a pool, be it only to be refused, must not take the workers' processors from others'
/// tokens: the calling thread has a third of their weight from now on, where all want one.
inline void GiveWayToWorkers() {
  constexpr int kNicer = 5;
  errno = 0;
  const int nice = ::getpriority(PRIO_PROCESS, 0);  // of the calling thread
  if (errno == 0) (void)::setpriority(PRIO_PROCESS, 0, nice + kNicer);
}

}  // namespace quire

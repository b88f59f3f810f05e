#pragma once

#include <time.h>

#include <chrono>

namespace quire {

/// What the calling thread has had of a processor: other load does not count.
inline std::chrono::nanoseconds ThreadTime() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace quire

#pragma once

#include <time.h>

#include <chrono>

namespace quire {

/// Returns the processor time that the calling thread has used, without the time of other threads.
inline std::chrono::nanoseconds ThreadTime() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace quire

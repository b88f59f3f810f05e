#include "comm/base/scheduling_delay.h"

#include <algorithm>
#include <fstream>

namespace quire {

void RecentDelay::Note(Clock::duration wanted, Clock::duration took, Clock::time_point now) {
  if (now - window_begin_ >= kWindow) {
    earlier_ = now - window_begin_ < 2 * kWindow ? latest_ : Clock::duration(0);
    latest_ = Clock::duration(0);
    window_begin_ = now;
  }
  latest_ = std::max(latest_, took - wanted);
}

int64_t StarvedMicros() {
  std::ifstream file("/proc/self/schedstat");
  int64_t ran_nanos = 0, waited_nanos = 0;
  return file >> ran_nanos >> waited_nanos ? waited_nanos / 1000 : 0;
}

}  // namespace quire

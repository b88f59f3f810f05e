#include "worker/cuda/device/one_shot_threshold.h"

namespace quire {

int64_t DefaultOneShotThreshold(int ranks) {
  if (ranks <= 2) return 512 << 10;
  return ranks <= 6 ? kOneShotCapacity : 256 << 10;
}

int64_t OneShotThreshold(std::span<const SumTiming> timings) {
  int64_t threshold = 0;
  for (const SumTiming& timing : timings) {
    if (timing.one_shot > timing.library) break;
    threshold = timing.bytes;
  }
  return threshold;
}

}  // namespace quire

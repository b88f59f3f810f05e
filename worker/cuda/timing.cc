#include "worker/cuda/timing.h"

#include <algorithm>
#include <vector>

namespace quire {

namespace {
constexpr int kRounds = 5;
constexpr int kBeginMark = Device::kNumMarks - 2, kEndMark = Device::kNumMarks - 1;
}  // namespace

std::optional<double> MedianSeconds(Device& device, const std::function<bool()>& queue) {
  std::vector<double> seconds;
  for (int round = 0; round <= kRounds; ++round) {
    device.SetMark(kBeginMark);
    if (!queue()) return std::nullopt;
    device.SetMark(kEndMark);
    device.Await(kEndMark);
    if (round > 0) seconds.push_back(device.SecondsBetween(kBeginMark, kEndMark));
  }
  std::nth_element(seconds.begin(), seconds.begin() + kRounds / 2, seconds.end());
  return seconds[kRounds / 2];
}

}  // namespace quire

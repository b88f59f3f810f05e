#include "worker/cuda/device/timing.h"

#include <algorithm>
#include <vector>

namespace quire {

namespace {
constexpr int kRounds = 3, kCalls = 10;
constexpr int kBeginMark = Device::kNumMarks - 2, kEndMark = Device::kNumMarks - 1;
}  // namespace

std::optional<double> MedianSeconds(Device& device, const std::function<bool()>& queue) {
  if (!queue()) return std::nullopt;  // the first call may load code, which must not happen during capture
  bool queued = true;
  const std::unique_ptr<DeviceGraph> graph = device.Capture([&] {
    for (int call = 0; call < kCalls && queued; ++call) queued = queue();
  });
  if (!queued) return std::nullopt;
  std::vector<double> seconds;
  for (int round = 0; round <= kRounds; ++round) {
    device.SetMark(kBeginMark);
    device.Launch(*graph);
    device.SetMark(kEndMark);
    device.Await(kEndMark);
    if (round > 0) seconds.push_back(device.SecondsBetween(kBeginMark, kEndMark) / kCalls);
  }
  std::nth_element(seconds.begin(), seconds.begin() + kRounds / 2, seconds.end());
  return seconds[kRounds / 2];
}

}  // namespace quire

#include "comm/collective/device_way.h"

#include <utility>

#include "comm/base/error.h"

namespace quire {

bool DeviceMove::IsOver(const std::string& peer) const {
  const std::shared_ptr<DeviceLink> asked = link.lock();
  if (asked == nullptr) Fail("{}{}the way from device to device has broken", peer, peer.empty() ? "" : ": ");
  return asked->num_done() >= number;
}

void DeviceWay::Open(DeviceCarrier& carrier, std::string meeting, bool gives) {
  link_.reset();
  meeting_ = std::move(meeting);
  moves_ = 0;
  link_ = carrier.Open(meeting_, gives);
}

DeviceMove DeviceWay::Move(BlockMemory blocks, BlockRuns runs) {
  link_->Move(std::move(blocks), std::move(runs));
  return {link_, ++moves_};
}

}  // namespace quire

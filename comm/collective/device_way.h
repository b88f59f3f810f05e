#pragma once

#include <memory>
#include <string>

#include "comm/collective/device_carrier.h"

namespace quire {

/// A move that a DeviceLink was asked for.
struct DeviceMove {
  std::weak_ptr<DeviceLink> link;
  int64_t number = 0;  // among the link's moves; 0: nothing was asked for

  bool asked() const { return number > 0; }
  /// Throws Error once the link has failed, or was given up; `peer`, in the text: whose.
  bool IsOver(const std::string& peer = "") const;
};

/// A rank's end towards one other rank, and what it was asked for. Without a link before Open and after GiveUp.
class DeviceWay {
 public:
  /// With another meeting; gives up what there was before: a device holds one end of a pair at a time.
  void Open(DeviceCarrier& carrier, std::string meeting, bool gives);
  void GiveUp() { link_.reset(); }
  bool is_open() const { return link_ != nullptr; }
  const std::string& meeting() const { return meeting_; }

  DeviceMove Move(BlockMemory blocks, BlockRuns runs);
  bool WasAskedFor(const DeviceMove& move) const { return link_ != nullptr && move.link.lock() == link_; }

 private:
  std::string meeting_;
  std::shared_ptr<DeviceLink> link_;
  int64_t moves_ = 0;
};

}  // namespace quire

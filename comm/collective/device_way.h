#pragma once

#include <memory>
#include <string>

#include "comm/collective/device_carrier.h"

namespace quire {

/// A move that was requested from a DeviceLink.
struct DeviceMove {
  std::weak_ptr<DeviceLink> link;
  int64_t number = 0;  // position among the link's moves, from 1; 0: no move was requested

  bool asked() const { return number > 0; }
  /// True when the move has finished. Throws Error, with `peer` in its text, once the link has failed or was given up.
  bool IsOver(const std::string& peer = "") const;
};

/// A rank's DeviceLink to one other rank, with the number of moves requested from it. Before Open and after GiveUp
/// there is no link.
class DeviceWay {
 public:
  /// Opens a link for `meeting`. First gives up the old link, because a device can have only one end of a pair at a
  /// time.
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

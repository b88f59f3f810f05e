#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "comm/collective/block_link.h"

namespace quire {

/// One end of a link that moves KV blocks from one rank's device to another rank's device. Both ends must request the
/// same moves in the same order. Calls return without waiting; another thread does the moves.
class DeviceLink {
 public:
  /// Gives up unfinished moves; the link's other end then fails. Nothing is written into the blocks after the
  /// destructor.
  virtual ~DeviceLink() = default;
  /// Requests one move: this end sends or receives the bytes `runs` of every block, in order. The blocks are device
  /// memory of a single allocation.
  virtual void Move(BlockMemory blocks, BlockRuns runs) = 0;
  /// Returns the number of requested moves that have finished. Throws Error once the link has failed.
  virtual int64_t num_done() = 0;
};

/// Opens DeviceLinks for one rank's device.
class DeviceCarrier {
 public:
  virtual ~DeviceCarrier() = default;
  /// Makes an identifier of at most kMostMeetingBytes bytes, with which the two ends of one link find each other. The
  /// sending rank calls this. Throws Error when the device's library gives no identifier.
  virtual std::string NewMeeting() = 0;
  virtual std::unique_ptr<DeviceLink> Open(const std::string& meeting, bool gives) = 0;
};

inline constexpr size_t kMostMeetingBytes = 256;

}  // namespace quire

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "comm/collective/block_link.h"

namespace quire {

/// One end of the way that KV blocks take from the device of one rank to that of another. Both ends are asked for the
/// same moves in the same order. Calls return at once; what they ask for is done beside.
class DeviceLink {
 public:
  /// Gives up what is not over, by which the other end fails; nothing is written into blocks afterwards.
  virtual ~DeviceLink() = default;
  /// The runs of every block go, or come, in order. The blocks are device memory and lie in one allocation.
  virtual void Move(BlockMemory blocks, BlockRuns runs) = 0;
  /// Of the moves that were asked for, so many are over. Throws Error once the link has failed.
  virtual int64_t num_done() = 0;
};

/// What a rank's device has to open such ways.
class DeviceCarrier {
 public:
  virtual ~DeviceCarrier() = default;
  /// By what the two ends of a link find each other; at most kMostMeetingBytes. The rank that gives makes it, for one
  /// link. Throws Error.
  virtual std::string NewMeeting() = 0;
  virtual std::unique_ptr<DeviceLink> Open(const std::string& meeting, bool gives) = 0;
};

inline constexpr size_t kMostMeetingBytes = 256;

}  // namespace quire

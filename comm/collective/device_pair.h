#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace quire {

/// A connection from a sending device to a receiving device. The ranks of the devices may belong to different groups.
/// Each Send at one end needs a Receive of the same size at the other end, in the same order. Only one thread may use
/// it.
class DevicePair {
 public:
  /// Ends the connection even if transfers are unfinished; they then fail at the other end. May wait until queued work
  /// has left the device, so do not destroy a pair on a thread for which others wait.
  virtual ~DevicePair() = default;

  // Send and Receive each queue a transfer of device memory on the stream. Both throw CollectiveAborted or Error when
  // the connection has failed.
  virtual void Send(const void* data, int64_t bytes, void* stream) = 0;
  virtual void Receive(void* data, int64_t bytes, void* stream) = 0;

  /// Throws CollectiveAborted or Error once the connection has failed. Call this while you wait for the stream.
  virtual void Check() = 0;
};

/// Functions that connect pairs of devices.
struct DevicePairing {
  /// Makes the identifier with which the two ends of one pair find each other. Throws Error when NCCL gives none.
  std::function<std::string()> new_meeting;
  /// Connects the calling thread's current device to the other end. `gives`: true at the end that sends. Throws
  /// CollectiveAborted or Error when the other end has not come after a minute, when `given_up` returns true, or when
  /// NCCL fails.
  std::function<std::unique_ptr<DevicePair>(const std::string& meeting, bool gives, std::function<bool()> given_up)>
      meet;
};

}  // namespace quire

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace quire {

/// Two devices, one of which gives and the other takes, whatever groups their ranks are of. Every Send here is a
/// Receive of as many bytes there, in the same order. Belongs to one thread.
class DevicePair {
 public:
  /// Ends it, done or not, by which the other end fails. May wait until what is queued has left the device: not for a
  /// thread that others wait for.
  virtual ~DevicePair() = default;

  // Queued, on device memory. Throw Error.
  virtual void Send(const void* data, int64_t bytes, void* stream) = 0;
  virtual void Receive(void* data, int64_t bytes, void* stream) = 0;

  /// Throws Error once the pair has failed. For whoever waits for the stream.
  virtual void Check() = 0;
};

/// How pairs are made.
struct DevicePairing {
  /// By what the ends of one pair find each other. Throws Error.
  std::function<std::string()> new_meeting;
  /// Waits for the other end, a minute at most, unless `given_up` says that nobody wants it any more. On the thread's
  /// current device. Throws Error.
  std::function<std::unique_ptr<DevicePair>(const std::string& meeting, bool gives, std::function<bool()> given_up)>
      meet;
};

}  // namespace quire

#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <stop_token>

#include "comm/wire/messages.h"

namespace quire {

/// Sends and receives frames between this process and a child process over a pair of stream sockets. Each frame is sent
/// as its header, the body's length in 8 bytes, and the body. The class is not thread-safe and does not own the
/// descriptor.
class FrameSocket {
 public:
  explicit FrameSocket(int fd) : fd_(fd) {}

  /// Blocks until the frame is sent. Returns false when the process at the other end has closed the socket.
  bool Send(const Frame& frame) const;
  /// Blocks until a frame has arrived and returns it; nullopt when the process at the other end has closed the socket
  /// or announces a body of more than 64 MiB.
  std::optional<Frame> Receive() const;
  /// Waits at most `time`. Returns true when data has arrived or the process at the other end has closed the socket.
  bool Readable(std::chrono::milliseconds time) const;

 private:
  bool Read(void* data, size_t bytes) const;
  bool Write(const void* data, size_t bytes) const;
  int fd_;
};

}  // namespace quire

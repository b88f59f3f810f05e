#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <stop_token>

#include "comm/wire/messages.h"

namespace quire {

/// Frames between this process and one that it started, over a pair of stream sockets. A frame travels as its header,
/// the length of its body as 8 bytes, and its body. Not thread-safe; does not own the descriptor.
class FrameSocket {
 public:
  explicit FrameSocket(int fd) : fd_(fd) {}

  /// Blocks. False when the other side is gone.
  bool Send(const Frame& frame) const;
  /// Blocks. Nothing when the other side is gone, or sends more than 64 MiB at once.
  std::optional<Frame> Receive() const;
  /// Waits for as long: whether there is something to receive, or the other side is gone.
  bool Readable(std::chrono::milliseconds time) const;

 private:
  bool Read(void* data, size_t bytes) const;
  bool Write(const void* data, size_t bytes) const;
  int fd_;
};

}  // namespace quire

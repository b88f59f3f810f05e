#include "coordinator/grammars/frame_socket.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

namespace quire {

namespace {

constexpr uint64_t kMostOfBody = 64u << 20;  // largest frame body in bytes; vocabularies are the longest bodies

}  // namespace

bool FrameSocket::Read(void* data, size_t bytes) const {
  for (auto* at = static_cast<char*>(data); bytes > 0;) {
    const ssize_t count = ::recv(fd_, at, bytes, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += count;
    bytes -= static_cast<size_t>(count);
  }
  return true;
}

bool FrameSocket::Write(const void* data, size_t bytes) const {
  for (const auto* at = static_cast<const char*>(data); bytes > 0;) {
    const ssize_t count = ::send(fd_, at, bytes, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += count;
    bytes -= static_cast<size_t>(count);
  }
  return true;
}

bool FrameSocket::Send(const Frame& frame) const {
  const uint64_t length = frame.body.size();
  return Write(&frame.header, sizeof(frame.header)) && Write(&length, sizeof(length)) &&
         Write(frame.body.data(), frame.body.size());
}

std::optional<Frame> FrameSocket::Receive() const {
  Frame frame;
  uint64_t length = 0;
  if (!Read(&frame.header, sizeof(frame.header)) || !Read(&length, sizeof(length)) || length > kMostOfBody)
    return std::nullopt;
  frame.body.resize(length);
  if (!Read(frame.body.data(), length)) return std::nullopt;
  return frame;
}

bool FrameSocket::Readable(std::chrono::milliseconds time) const {
  pollfd ready{fd_, POLLIN, 0};
  return ::poll(&ready, 1, static_cast<int>(time.count())) > 0;
}

}  // namespace quire

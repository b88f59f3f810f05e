#include "coordinator/cluster/launch/host_probe.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

namespace quire {

bool HostAnswers(const std::string& host, uint16_t port, std::chrono::milliseconds patience) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, ::freeaddrinfo);
  const int fd = ::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  int error = ::connect(fd, found->ai_addr, found->ai_addrlen) == 0 ? 0 : errno;
  pollfd connected{fd, POLLOUT, 0};
  if (error == EINPROGRESS && ::poll(&connected, 1, static_cast<int>(patience.count())) == 1) {
    socklen_t size = sizeof(error);
    ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  }
  ::close(fd);
  return error == 0 || error == ECONNREFUSED;
}

}  // namespace quire

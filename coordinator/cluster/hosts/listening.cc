#include "coordinator/cluster/hosts/listening.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace quire {

namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses Resolve(const std::string& host, int port, std::string& problem) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (error != 0) problem = ::gai_strerror(error);
  return Addresses(error == 0 ? list : nullptr, &::freeaddrinfo);
}

/// Tries to bind and listen. Returns 0 or the errno.
int Bind(const addrinfo& address) {
  const int fd = ::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const int error = ::bind(fd, address.ai_addr, address.ai_addrlen) == 0 && ::listen(fd, 1) == 0 ? 0 : errno;
  ::close(fd);
  return error;
}

}  // namespace

std::string ListeningProblem(const std::string& address, int port) {
  std::string problem;
  const Addresses addresses = Resolve(address, port, problem);
  if (addresses == nullptr) return problem;
  const int error = Bind(*addresses);
  return error == 0 ? "" : std::strerror(error);
}

bool IsThisHost(const std::string& host) {
  std::string problem;
  const Addresses addresses = Resolve(host, 0, problem);
  for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
    if (Bind(*a) == 0) return true;
  }
  return false;
}

}  // namespace quire

#include "comm/base/own_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "comm/base/error.h"

namespace quire {

namespace {

constexpr std::string_view kScheme = "tcp://";

/// Finds the address of this host from which the kernel would send to `peer`, by connecting a datagram socket; this
/// sends nothing. Returns false, with errno set, when the kernel finds no such address.
bool FindSource(const addrinfo& peer, sockaddr_storage& own, socklen_t& size) {
  const int fd = ::socket(peer.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool found = ::connect(fd, peer.ai_addr, peer.ai_addrlen) == 0 &&
                     ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0;
  const int error = errno;
  ::close(fd);
  errno = error;
  return found;
}

}  // namespace

std::string OwnAddressTowards(const std::string& endpoint) {
  const size_t colon = endpoint.rfind(':');
  if (!endpoint.starts_with(kScheme) || colon <= kScheme.size()) Fail("{} is no address on a network", endpoint);
  std::string host = endpoint.substr(kScheme.size(), colon - kScheme.size());
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const int status = ::getaddrinfo(host.c_str(), endpoint.substr(colon + 1).c_str(), &hints, &found);
  if (status != 0) Fail("{}: {}", endpoint, ::gai_strerror(status));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> peers(found, ::freeaddrinfo);
  sockaddr_storage own{};
  socklen_t size = sizeof(own);
  if (!FindSource(*peers, own, size)) Fail("no way to {}: {}", endpoint, std::strerror(errno));
  char text[NI_MAXHOST] = {};
  const auto* address = reinterpret_cast<const sockaddr*>(&own);
  if (::getnameinfo(address, size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0)
    Fail("this host's address towards {} cannot be written", endpoint);
  return own.ss_family == AF_INET6 ? fmt::format("[{}]", text) : text;
}

}  // namespace quire

// A module that is loaded into mpirun (LD_PRELOAD) where all its ranks are on this host. Open MPI 4.1 listens on all
// interfaces, whatever its parameters say. With this module a socket that would be bound to all interfaces is bound to
// loopback.
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace {

/// Removes this module, which comes first in LD_PRELOAD, from the environment, so that the ranks do not load it.
__attribute__((constructor)) void LeaveEnvironment() {
  const char* modules = std::getenv("LD_PRELOAD");
  const char* others = modules == nullptr ? nullptr : std::strchr(modules, ':');
  if (others != nullptr)
    ::setenv("LD_PRELOAD", others + 1, 1);
  else
    ::unsetenv("LD_PRELOAD");
}

int Bind(int socket, const void* address, socklen_t size) {
  return static_cast<int>(::syscall(SYS_bind, socket, address, size));
}

}  // namespace

/// Replaces the C library's bind. Binds sockets for 0.0.0.0 and :: to loopback, and all other sockets as asked. Without
/// an IPv6 loopback, IPv6 sockets are bound as asked.
extern "C" __attribute__((visibility("default"))) int bind(int socket, const sockaddr* address,
                                                           socklen_t size) noexcept {
  if (address != nullptr && address->sa_family == AF_INET && size >= sizeof(sockaddr_in)) {
    sockaddr_in v4{};
    std::memcpy(&v4, address, sizeof(v4));
    if (v4.sin_addr.s_addr == INADDR_ANY) v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return Bind(socket, &v4, sizeof(v4));
  }
  if (address != nullptr && address->sa_family == AF_INET6 && size >= sizeof(sockaddr_in6)) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, address, sizeof(v6));
    if (std::memcmp(&v6.sin6_addr, &in6addr_any, sizeof(in6addr_any)) == 0) {
      v6.sin6_addr = in6addr_loopback;
      const int bound = Bind(socket, &v6, sizeof(v6));
      if (bound == 0 || errno != EADDRNOTAVAIL) return bound;
    }
  }
  return Bind(socket, address, size);
}

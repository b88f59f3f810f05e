#include "comm/wire/gate/gate_sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "comm/base/error.h"
#include "comm/base/private_directory.h"
#include "comm/wire/curve/worker_hosts.h"

namespace quire {

namespace {

constexpr std::string_view kTcpScheme = "tcp://";
constexpr const char* kLoopback = "loopback";  // a neighbourhood

Descriptor Listening(const addrinfo& at) {
  Descriptor socket(::socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int one = 1;
  const bool listens = socket.open() && ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
                       ::bind(socket.get(), at.ai_addr, at.ai_addrlen) == 0 &&
                       ::listen(socket.get(), kGateBacklog) == 0;
  if (listens) return socket;
  const int error = errno;
  socket = Descriptor();
  errno = error;
  return socket;
}

/// Returns the first address of this family of the named interface; empty when this host has no such interface.
std::string AddressOfInterface(const std::string& name, int family) {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(found, ::freeifaddrs);
  for (const ifaddrs* one = found; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr != nullptr && one->ifa_addr->sa_family == family && name == one->ifa_name)
      return AddressText(Stored(*one->ifa_addr));
  }
  return "";
}

/// Creates a folder of mode 0700 in `base`. Returns its path; empty if that fails or the path is too long for a
/// socket's name.
std::string FreshFolder(const char* base) {
  constexpr size_t kMostBytes = 90;
  if (base == nullptr || std::strlen(base) > kMostBytes - 16 || !IsSafeForFolders(base)) return "";
  std::string path = std::string(base) + "/.quire.XXXXXX";
  return ::mkdtemp(path.data()) != nullptr ? path : "";
}

}  // namespace

Descriptor ListenOnTcp(const std::string& endpoint) {
  const size_t colon = endpoint.rfind(':');
  if (!endpoint.starts_with(kTcpScheme) || colon <= kTcpScheme.size()) Fail("{} is no address on a network", endpoint);
  std::string host = endpoint.substr(kTcpScheme.size(), colon - kTcpScheme.size());
  std::string port = endpoint.substr(colon + 1);
  if (port == "*") port = "0";
  addrinfo hints{};
  hints.ai_family = AF_INET;
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
    hints.ai_family = AF_INET6;
  }
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  if (const std::string own = AddressOfInterface(host, hints.ai_family); !own.empty()) host = own;
  addrinfo* found = nullptr;
  const int status = ::getaddrinfo(host == "*" ? nullptr : host.c_str(), port.c_str(), &hints, &found);
  if (status != 0) Fail("cannot listen on {}: {}", endpoint, ::gai_strerror(status));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> places(found, ::freeaddrinfo);
  Descriptor socket;
  for (const addrinfo* at = found; at != nullptr && !socket.open(); at = at->ai_next) socket = Listening(*at);
  if (!socket.open()) Fail("cannot listen on {}: {}", endpoint, std::strerror(errno));
  return socket;
}

std::string TcpEndpointOf(int listening) {
  sockaddr_storage own{};
  socklen_t size = sizeof(own);
  if (::getsockname(listening, reinterpret_cast<sockaddr*>(&own), &size) != 0)
    Fail("a listening socket has no name: {}", std::strerror(errno));
  const bool v6 = own.ss_family == AF_INET6;
  const in_port_t port =
      v6 ? reinterpret_cast<const sockaddr_in6&>(own).sin6_port : reinterpret_cast<const sockaddr_in&>(own).sin_port;
  const std::string host = AddressText(own);
  return fmt::format("tcp://{}:{}", v6 ? "[" + host + "]" : host, ntohs(port));
}

bool LacksDescriptors(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

Descriptor AcceptPeer(int listening, sockaddr_storage& peer) {
  constexpr int kYes = 1, kDeadLinkMillis = 3000;
  socklen_t size = sizeof(peer);
  auto* const address = reinterpret_cast<sockaddr*>(&peer);
  Descriptor socket(::accept4(listening, address, &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket.open()) return socket;
  (void)::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &kYes, sizeof(kYes));
  (void)::setsockopt(socket.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &kDeadLinkMillis, sizeof(kDeadLinkMillis));
  return socket;
}

PeerName NameOf(const sockaddr_storage& address) {
  const sockaddr_storage peer = PlainAddress(address);
  PeerName name;
  name.address = name.network = AddressText(peer);
  name.neighbourhood = name.network.substr(0, name.network.rfind('.'));  // the /24 of an IPv4 address
  if (name.network.starts_with("127.")) name.neighbourhood = kLoopback;
  if (peer.ss_family != AF_INET6) return name;
  in6_addr network = reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr;
  if (IN6_IS_ADDR_LOOPBACK(&network)) {
    name.neighbourhood = kLoopback;
    return name;
  }
  constexpr size_t kKept = 6;
  std::memset(network.s6_addr + kKept, 0, sizeof(network.s6_addr) - kKept);
  char text[INET6_ADDRSTRLEN] = {};
  name.network = name.neighbourhood = ::inet_ntop(AF_INET6, &network, text, sizeof(text));
  return name;
}

PrivateSocket::PrivateSocket() {
  std::string folder;
  const char* const bases[] = {std::getenv("XDG_RUNTIME_DIR"), "/tmp", std::getenv("TMPDIR"), "/dev/shm"};
  for (const char* base : bases) {
    folder = FreshFolder(base);
    if (!folder.empty()) break;
  }
  if (folder.empty()) {
    Fail(
        "cannot make a folder under $XDG_RUNTIME_DIR, /tmp, $TMPDIR or /dev/shm: one of them must belong to this user "
        "or to root, and have the sticky bit where other users may write");
  }
  const std::string path = folder + "/s";
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, path.c_str(), path.size() + 1);
  listening_ = Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool listens = listening_.open() &&
                       ::bind(listening_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0 &&
                       ::listen(listening_.get(), kGateBacklog) == 0;
  const int error = errno;
  inode_ = Descriptor(::open(path.c_str(), O_PATH | O_CLOEXEC | O_NOFOLLOW));
  ::unlink(path.c_str());
  ::rmdir(folder.c_str());
  if (!listens || !inode_.open()) Fail("cannot listen on {}: {}", path, std::strerror(error));
}

Descriptor PrivateSocket::Connect() const {
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  // Connects to the socket's inode through the descriptor that this object holds.
  fmt::format_to_n(name.sun_path, sizeof(name.sun_path) - 1, "/proc/self/fd/{}", inode_.get());
  if (socket.open() && ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) != 0) {
    const int error = errno;
    socket = Descriptor();
    errno = error;
  }
  return socket;
}

}  // namespace quire

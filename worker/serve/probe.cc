#include "worker/serve/probe.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "comm/base/error.h"
#include "comm/base/host_limits.h"
#include "comm/base/host_name.h"
#include "comm/base/printable.h"
#include "comm/model/model_files.h"
#include "comm/wire/messages.h"
#include "worker/serve/backend.h"

namespace quire {

namespace {

struct Interface {
  std::string name;
  bool up = false;
  in_addr address{};
};

/// Returns all network interfaces with an IPv4 address except loopback.
std::vector<Interface> Interfaces() {
  std::vector<Interface> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return found;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET || (i->ifa_flags & IFF_LOOPBACK) != 0) continue;
    Interface interface {
      i->ifa_name, (i->ifa_flags & IFF_RUNNING) != 0, {}
    };
    interface.address = reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr;
    found.push_back(interface);
  }
  ::freeifaddrs(list);
  return found;
}

bool InNetwork(in_addr address, const std::string& network) {
  const size_t slash = network.find('/');
  in_addr base{};
  int bits = -1;
  std::from_chars(network.data() + slash + 1, network.data() + network.size(), bits);
  if (::inet_pton(AF_INET, network.substr(0, slash).c_str(), &base) != 1 || bits < 0 || bits > 32) return false;
  const uint32_t mask = bits == 0 ? 0 : ~uint32_t{0} << (32 - bits);
  return (ntohl(address.s_addr) & mask) == (ntohl(base.s_addr) & mask);
}

/// Returns "up ADDRESS", "down NAME", or "missing; there are NAMES" for the wanted interface.
std::string DescribeInterface(const std::string& wanted) {
  const bool network = wanted.find('/') != std::string::npos;
  std::vector<std::string> names;
  for (const Interface& interface : Interfaces()) {
    names.push_back(interface.name);
    if (network ? !InNetwork(interface.address, wanted) : interface.name != wanted) continue;
    char text[INET_ADDRSTRLEN] = {};
    ::inet_ntop(AF_INET, &interface.address, text, sizeof(text));
    return interface.up ? fmt::format("up {}", text) : "down " + interface.name;
  }
  return fmt::format("missing; there {}", names.empty() ? "is none with an IPv4 address but loopback"
                                                        : fmt::format("are: {}", fmt::join(names, ", ")));
}

bool CanListen(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  const bool can = ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  ::close(fd);
  return can;
}

int64_t SharedMemory() {
  struct statvfs info {};
  if (::statvfs("/dev/shm", &info) != 0) return 0;
  return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
}

std::string DescribeModel(const std::string& path) {
  try {
    return "fingerprint " + ModelFiles::Open(path).Fingerprint();
  } catch (const std::exception& error) {
    std::string reason = error.what();
    std::ranges::replace(reason, '\n', ' ');
    return "unreadable " + reason;
  }
}

/// Returns "private", or the problem with the key directory.
std::string DescribeKeys(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return fmt::format("missing {}", std::strerror(errno));
  if (!S_ISDIR(info.st_mode)) return "no directory";
  if (info.st_uid != ::geteuid()) return "another user's";
  if ((info.st_mode & 077) != 0) return fmt::format("open to others (mode {:o})", info.st_mode & 07777);
  return "private";
}

}  // namespace

int RunProbe(const ProbeOptions& options) {
  fmt::print("version {} protocol {}\nhost {}\n", kBuildVersion, kProtocolVersion, OwnHostName());
  if (!options.interface.empty()) fmt::print("interface {}\n", DescribeInterface(options.interface));
  if (options.ports.size() == 2) {
    std::vector<int> busy;
    for (int port = options.ports[0]; port <= options.ports[1]; ++port) {
      if (!CanListen(port)) busy.push_back(port);
    }
    fmt::print("busy_ports {}\n", fmt::join(busy, " "));
  }
  const MemoryRoom memory = ReadMemoryRoom();
  const ProcessorRoom processors = OwnProcessorRoom();
  fmt::print("shm {}\nmemory {}\n", SharedMemory(), memory.available);
  fmt::print("memory_total {}\nmemory_limit {}\n", memory.total, WithoutControls(memory.limited_by));
  fmt::print("processors {}\n", processors.count);
  const Accelerators accelerators = FindAccelerators();
  fmt::print("devices {} {}\n", accelerators.count, accelerators.problem);
  if (!options.model.empty()) fmt::print("model {}\n", DescribeModel(options.model));
  if (!options.keys.empty()) fmt::print("keys {}\n", DescribeKeys(options.keys));
  return 0;
}

}  // namespace quire

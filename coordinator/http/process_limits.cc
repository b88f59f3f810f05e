#include "coordinator/http/process_limits.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>

#include "comm/base/host_limits.h"
#include "comm/topology/request_memory.h"

namespace quire {

namespace {

constexpr int kReservedDescriptors = 512;  // file descriptors for everything but connections
constexpr int kFewestConnections = 16;     // allowed even with few descriptors

int MostDescriptors() {
  rlimit descriptors{};
  ::getrlimit(RLIMIT_NOFILE, &descriptors);
  return static_cast<int>(std::min<rlim_t>(descriptors.rlim_cur, 1 << 20));
}

}  // namespace

Topology::Limits LimitsOfThisProcess(Topology::Limits wanted) {
  rlimit descriptors{};
  ::getrlimit(RLIMIT_NOFILE, &descriptors);
  descriptors.rlim_cur = descriptors.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &descriptors);
  const int most = MostDescriptors() - kReservedDescriptors;
  wanted.connections = std::min(wanted.connections, std::max(most, kFewestConnections));
  wanted.memory_bytes = MemoryOfRequests(wanted, ReadMemoryRoom().total);
  if (wanted.memory_bytes_per_client == 0)
    wanted.memory_bytes_per_client = std::max(wanted.memory_bytes / 2, Topology::Limits::kLeastMemory);
  return wanted;
}

std::string DescriptorWarning(const Topology::Limits& wanted, const Topology::Limits& here) {
  if (here.connections >= wanted.connections) return "";
  return fmt::format(
      "this process may open {} file descriptors, enough for {} connections at once instead of {} "
      "(server.limits.connections); raise the hard limit (ulimit -Hn, LimitNOFILE of systemd, --ulimit nofile of "
      "Docker)",
      MostDescriptors(), here.connections, wanted.connections);
}

}  // namespace quire

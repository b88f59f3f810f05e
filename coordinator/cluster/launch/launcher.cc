#include "coordinator/cluster/launch/launcher.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "comm/base/error.h"
#include "coordinator/cluster/launch/child_process.h"

namespace quire {

namespace {

/// Collects the words of a command line.
class CommandLine {
 public:
  void Add(const std::vector<std::string>& words) { words_.insert(words_.end(), words.begin(), words.end()); }
  void Mca(const std::string& key, const std::string& value) { Add({"--mca", key, value}); }
  const std::vector<std::string>& words() const { return words_; }

 private:
  std::vector<std::string> words_;
};

/// Adds mpirun's options for ranks that all run on this host. Nothing starts on other hosts, so ssh is not needed.
void AddOneHost(CommandLine& line, const std::string& session_dir) {
  line.Mca("plm", "isolated");
  line.Mca("orte_tmpdir_base", session_dir);
  line.Mca("btl", "self,vader");
  line.Mca("btl_vader_single_copy_mechanism", "none");
  line.Mca("btl_vader_backing_directory", session_dir);
  line.Mca("oob_tcp_if_include", "lo");
  line.Add({"--oversubscribe"});
}

/// The number of ports of mpirun and its daemons, for each address family; the ranks get the ports after these. mpirun
/// listens on all of its ports, a daemon on the first free one. Several ports are needed, because the daemon of a
/// cut-off node may still run when the next epoch starts.
constexpr int kDaemonPorts = 4;

/// Returns the interface of this host that has the IPv4 address; empty if there is none.
std::string InterfaceWith(const std::string& address) {
  in_addr wanted{};
  ifaddrs* list = nullptr;
  if (::inet_pton(AF_INET, address.c_str(), &wanted) != 1 || ::getifaddrs(&list) != 0) return "";
  std::string name;
  for (const ifaddrs* i = list; i != nullptr && name.empty(); i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET) continue;
    if (reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr.s_addr == wanted.s_addr) name = i->ifa_name;
  }
  ::freeifaddrs(list);
  return name;
}

std::string PortRange(int first, int count) { return fmt::format("{}-{}", first, first + count - 1); }

/// Adds mpirun's options for ranks on several hosts. MPI carries data between hosts, and this program's own shared
/// memory carries data inside a host.
void AddNetwork(CommandLine& line, const Topology& topology, const std::vector<NodeRanks>& placement) {
  line.Mca("plm", "rsh");
  line.Mca("plm_rsh_agent", topology.launch.agent);
  line.Mca("btl", "self,tcp");
  // A message above this limit takes three network delays instead of one, because MPI asks the receiver before it
  // sends. A piece of an all-reduce or of a stage's rows has up to 256 KiB per rank.
  line.Mca("btl_tcp_eager_limit", std::to_string(kLongestUnaskedMessage));
  // Open MPI 4.1 listens on IPv6 even when told not to, so the IPv6 ports are set, too.
  const int first = topology.transport.mpi_ports[0], last = topology.transport.mpi_ports[1];
  const int ranks_first = first + 2 * kDaemonPorts;
  line.Mca("oob_tcp_dynamic_ipv4_ports", PortRange(first, kDaemonPorts));
  line.Mca("oob_tcp_dynamic_ipv6_ports", PortRange(first + kDaemonPorts, kDaemonPorts));
  for (const std::string family : {"v4", "v6"}) {
    line.Mca("btl_tcp_port_min_" + family, std::to_string(ranks_first));
    line.Mca("btl_tcp_port_range_" + family, std::to_string(last - ranks_first + 1));
  }
  // With these settings a cut-off node notices the lost connection within four seconds and ends its ranks; the default
  // is eight minutes.
  line.Mca("oob_tcp_keepalive_time", "1");
  line.Mca("oob_tcp_keepalive_intvl", "1");
  line.Mca("oob_tcp_keepalive_probes", "3");
  std::vector<std::string> interfaces;
  for (const NodeRanks& ranks : placement) {
    const std::string& interface = topology.nodes[ranks.node].interface;
    if (!interface.empty() && std::ranges::find(interfaces, interface) == interfaces.end())
      interfaces.push_back(interface);
  }
  if (interfaces.empty()) return;
  line.Mca("btl_tcp_if_include", fmt::format("{}", fmt::join(interfaces, ",")));
  // Adds the interface of this host, because mpirun runs on this host, which need not be a node. (Naming its address as
  // a network, 10.0.0.1/32, makes the daemons of Open MPI 4.1.4 connect to themselves.)
  const std::string here = InterfaceWith(topology.transport.bind);
  const auto is_network = [](const std::string& interface) { return interface.find('/') != std::string::npos; };
  if (!here.empty() && std::ranges::none_of(interfaces, is_network) &&
      std::ranges::find(interfaces, here) == interfaces.end())
    interfaces.push_back(here);
  line.Mca("oob_tcp_if_include", fmt::format("{}", fmt::join(interfaces, ",")));
}

/// Returns the mpirun to start. As for quire-worker, a program beside this one takes precedence over PATH, because a
/// Python environment with Quire and Open MPI need not be in PATH. If PATH leads to the same file, returns the plain
/// name, because mpirun takes a path as the folder of Open MPI on every node.
std::string MpirunProgram() {
  const auto found = FindProgram("mpirun"), in_path = FindInPath("mpirun");
  std::error_code ignored;
  const bool same = found && in_path && std::filesystem::equivalent(*found, *in_path, ignored);
  return found && !same ? *found : "mpirun";
}

/// Environment variables that the workers of a node get. None may hold a secret, because other users can read arguments
/// and environments of processes.
constexpr const char* kForwarded[] = {"QUIRE_ISA", "NCCL_DEBUG", "NCCL_IB_DISABLE", "NCCL_IB_HCA", "NCCL_P2P_DISABLE"};

/// Adds `count` ranks on one node, after the ranks of the earlier nodes. One host list for all nodes would not work:
/// Open MPI puts this host first in such a list, wherever this host stands in the topology.
void AddNode(CommandLine& line, const Topology::Node& node, int count, const std::vector<std::string>& worker) {
  line.Add({"-np", std::to_string(count), "--host", fmt::format("{}:{}", node.host, count), "--wd", "/"});
  const bool named = !node.interface.empty() && node.interface.find('/') == std::string::npos;
  if (named) line.Add({"-x", "NCCL_SOCKET_IFNAME=" + node.interface});
  for (const char* name : kForwarded) {
    if (std::getenv(name) != nullptr) line.Add({"-x", name});
  }
  line.Add(worker);
  line.Add({"--node", node.host});
}

}  // namespace

std::vector<std::string> MpirunCommand(const Topology& topology, const std::string& worker_binary,
                                       const std::string& data_endpoint, EpochId epoch, const std::string& session_dir,
                                       const std::vector<NodeRanks>& placement) {
  std::vector<std::string> worker = {worker_binary, "--coordinator", data_endpoint, "--epoch", std::to_string(epoch)};
  const std::string& keys = topology.transport.keys;
  if (!keys.empty()) worker.insert(worker.end(), {"--keys", std::filesystem::absolute(keys)});
  if (topology.logs.format != LogFormat::kText)
    worker.insert(worker.end(), {"--log-format", std::string(NameOf(topology.logs.format))});
  return MpirunCommand(topology, worker, session_dir, placement);
}

std::vector<std::string> MpirunCommand(const Topology& topology, const std::vector<std::string>& worker_command,
                                       const std::string& session_dir, const std::vector<NodeRanks>& placement) {
  const bool one_host = placement.empty();
  CommandLine line;
  // mpirun's own files go into the session directory; daemons on other hosts use their own temporary directory.
  if (!one_host) line.Add({"env", "TMPDIR=" + session_dir});
  line.Add({MpirunProgram()});
  if (one_host) line.Add({"-np", std::to_string(topology.parallel.num_ranks())});
  // If one rank dies, the whole job ends, because the coordinator decides how to go on (comm/PROTOCOL.md).
  line.Mca("orte_enable_recovery", "0");
  line.Mca("orte_abort_on_non_zero_status", "1");
  line.Mca("odls_base_sigkill_timeout", "0");
  line.Mca("orte_startup_timeout", "60");
  line.Mca("pml", "ob1");  // skips probing of unused fabrics
  line.Mca("mpi_yield_when_idle", "1");
  if (one_host) {
    AddOneHost(line, session_dir);
  } else {
    AddNetwork(line, topology, placement);
  }
  line.Add({"--bind-to", "none"});
  line.Add(topology.launch.args);
  if (one_host) line.Add(worker_command);
  for (const NodeRanks& ranks : placement) {
    if (ranks.first > 0) line.Add({":"});
    AddNode(line, topology.nodes[ranks.node], ranks.count, worker_command);
  }
  return line.words();
}

std::string WorkerBinary(const Topology& topology) {
  const std::string& named = topology.launch.worker;
  if (named.empty()) return FindWorkerBinary();
  // With several nodes the path refers to the nodes' file systems, and need not exist on this host.
  if (OnThisHost(topology) && named.find('/') != named.npos && ::access(named.c_str(), X_OK) != 0)
    FailSettings("launch.worker {}: no program that can be run: {}", named, std::strerror(errno));
  return named;
}

std::optional<std::string> FindProgram(const std::string& name) {
  const auto beside = OwnFolder() / name;
  if (::access(beside.c_str(), X_OK) == 0) return beside;
  return FindInPath(name);
}

std::string FindWorkerBinary() {
  if (const auto found = FindProgram("quire-worker")) return *found;
  FailSettings(
      "quire-worker is neither beside this program nor in PATH; build it (it needs MPI: libopenmpi-dev) or install it");
}

void CheckMpirunAllowed() {
  if (!FindProgram("mpirun"))
    FailSettings("mpirun is not installed (not found in PATH); on Debian and Ubuntu: apt-get install openmpi-bin");
  const auto is_set = [](const char* name) { return std::getenv(name) != nullptr; };
  if (::geteuid() == 0 && !(is_set("OMPI_ALLOW_RUN_AS_ROOT") && is_set("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"))) {
    FailSettings(
        "mpirun refuses to run as root; run as an ordinary user (in a throw-away container, set "
        "OMPI_ALLOW_RUN_AS_ROOT=1 "
        "and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)");
  }
}

}  // namespace quire

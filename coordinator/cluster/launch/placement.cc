#include "coordinator/cluster/launch/placement.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <map>
#include <optional>

#include "comm/base/error.h"
#include "comm/base/host_limits.h"
#include "coordinator/cluster/launch/rank_hosts.h"

namespace quire {

namespace {

/// Returns the most ranks that a node can take; 0 means any number.
int CapacityOf(const Topology::Node& node) {
  return node.slots > 0 ? node.slots : static_cast<int>(node.devices.size());
}

/// The nodes that are used first, and the spare nodes that may be added.
struct Candidates {
  std::vector<size_t> used, spares;
};

Candidates ChooseNodes(const std::vector<Topology::Node>& nodes, const std::set<std::string>& excluded) {
  Candidates result;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].spare && !excluded.contains(nodes[i].host)) result.spares.push_back(i);
  }
  bool any_excluded = false;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].spare) continue;
    if (!excluded.contains(nodes[i].host)) {
      result.used.push_back(i);
      continue;
    }
    any_excluded = true;
    if (result.spares.empty()) continue;
    result.used.push_back(result.spares.front());
    result.spares.erase(result.spares.begin());
  }
  if (!any_excluded) result.spares.clear();
  return result;
}

/// Returns the most ranks that these nodes take together; nullopt when one of them has no limit.
std::optional<int> TotalCapacity(const Topology& topology, const std::vector<size_t>& used) {
  int total = 0;
  for (const size_t i : used) {
    const int capacity = CapacityOf(topology.nodes[i]);
    if (capacity == 0) return std::nullopt;
    total += capacity;
  }
  return total;
}

std::string Misfit(const Topology& topology, const std::vector<size_t>& used, int num_ranks,
                   const std::set<std::string>& excluded) {
  std::vector<std::string> takes;
  for (const size_t i : used) {
    takes.push_back(fmt::format("{} takes {}", topology.nodes[i].host, CapacityOf(topology.nodes[i])));
  }
  return fmt::format(
      "{} ranks do not fit on the nodes ({}{}{}); give nodes more devices or slots, add nodes, or lower "
      "parallel.tensor or parallel.pipeline",
      num_ranks, takes.empty() ? "none is left" : fmt::format("{}", fmt::join(takes, ", ")),
      excluded.empty() ? "" : "; left out: ", fmt::join(excluded, ", "));
}

}  // namespace

Placement PlaceRanks(const Topology& topology, int num_ranks, const std::set<std::string>& excluded) {
  QUIRE_CHECK(num_ranks > 0, "{} ranks", num_ranks);
  if (topology.nodes.empty()) return {};
  auto [used, spares] = ChooseNodes(topology.nodes, excluded);
  auto capacity = TotalCapacity(topology, used);
  while (capacity && *capacity < num_ranks && !spares.empty()) {
    used.push_back(spares.front());
    spares.erase(spares.begin());
    capacity = TotalCapacity(topology, used);
  }
  if (capacity && *capacity < num_ranks) return {{}, Misfit(topology, used, num_ranks, excluded)};

  int limited = 0, unlimited = 0;  // ranks that fit on nodes with a limit; number of nodes without a limit
  for (const size_t i : used) {
    const int takes = CapacityOf(topology.nodes[i]);
    limited += takes;
    if (takes == 0) ++unlimited;
  }
  int to_share = std::max(0, num_ranks - limited), sharers = unlimited;
  Placement placement;
  Rank next = 0;
  for (const size_t i : used) {
    int count = CapacityOf(topology.nodes[i]);
    if (count == 0) {
      count = (to_share + sharers - 1) / sharers;
      to_share -= count;
      --sharers;
    }
    count = std::min(count, num_ranks - next);
    if (count > 0) placement.nodes.push_back({i, next, count});
    next += count;
  }
  return placement;
}

std::vector<Topology::Node> NodesOfReplica(const Topology& topology, int replica) {
  const int each = topology.parallel.num_ranks(), replicas = topology.parallel.replicas;
  const Placement all = PlaceRanks(topology, each * replicas, {});
  if (!all.problem.empty()) FailSettings("{} replicas of {}: {}", replicas, each, all.problem);
  std::vector<Topology::Node> nodes;
  for (const NodeRanks& ranks : all.nodes) {
    const int begin = std::max(ranks.first, replica * each) - ranks.first;
    const int end = std::min(ranks.first + ranks.count, (replica + 1) * each) - ranks.first;
    if (begin >= end) continue;
    Topology::Node node = topology.nodes[ranks.node];
    node.slots = end - begin;
    node.ranks_of_all = ranks.count;
    if (!node.devices.empty()) {
      node.devices.resize(static_cast<size_t>(end));
      node.devices.erase(node.devices.begin(), node.devices.begin() + begin);
    }
    nodes.push_back(std::move(node));
  }
  int spare = 0;
  for (const Topology::Node& node : topology.nodes) {
    if (node.spare && spare++ % replicas == replica) nodes.push_back(node);
  }
  return nodes;
}

std::vector<int> DevicesOfRanks(const Topology& topology, const std::vector<std::string>& hosts) {
  const auto lists = [](const Topology::Node& node) { return !node.devices.empty(); };
  if (std::ranges::none_of(topology.nodes, lists)) return {};
  std::vector<int> devices;
  std::map<std::string, size_t> ranks_so_far;
  for (const std::string& host : hosts) {
    const size_t index = ranks_so_far[host]++;
    const auto node = OnThisHost(topology)
                          ? topology.nodes.begin()
                          : std::ranges::find_if(topology.nodes, [&](const auto& n) { return n.host == host; });
    if (node == topology.nodes.end() || node->devices.empty()) {
      devices.push_back(static_cast<int>(index));
    } else if (index < node->devices.size()) {
      devices.push_back(node->devices[index]);
    } else {
      FailSettings("the topology lists {} devices for {}, which has more ranks; list a device for each of them",
                   node->devices.size(), node->host);
    }
  }
  return devices;
}

int ThreadsOfWorker(const Topology& topology, int workers_of_host) {
  if (topology.threads_per_worker > 0) return topology.threads_per_worker;
  return std::max(1, OwnProcessorRoom().count / workers_of_host);
}

int ThreadsOfWorkers(const Topology& topology, const std::vector<RankInfo>& ranks) {
  std::map<std::string, int> workers = RanksOfAllReplicas(topology, ranks);
  if (topology.threads_per_worker > 0 || ranks.empty()) return ThreadsOfWorker(topology, 1);
  int threads = INT_MAX;
  for (const RankInfo& rank : ranks) {
    const int processors = rank.processors > 0 ? rank.processors : OwnProcessorRoom().count;
    threads = std::min(threads, std::max(1, processors / workers[rank.host]));
  }
  return threads;
}

bool MayUseGpus(const Topology& topology) {
  const BackendKind backend = topology.compute.backend;
  return backend == BackendKind::kCuda || (backend == BackendKind::kAuto && ::access("/dev/nvidiactl", F_OK) == 0);
}

bool WorkersNeedAllCores(const Topology& topology, int other_threads) {
  const bool gpus = MayUseGpus(topology);
  if (!OnThisHost(topology) || topology.launch.method == LaunchMethod::kExternal) return !gpus;
  const int workers = topology.parallel.num_ranks() * topology.parallel.replicas;
  const int cores = OwnProcessorRoom().count;
  return workers * (gpus ? 1 : ThreadsOfWorker(topology, workers)) + other_threads > cores;
}

}  // namespace quire

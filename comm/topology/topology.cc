#include "comm/topology/topology.h"

#include <algorithm>
#include <map>
#include <set>

#include "comm/base/error.h"
#include "comm/base/parse_number.h"

namespace quire {

namespace {

void CheckReplicas(const Topology& t, const std::string& where) {
  const int replicas = t.parallel.replicas;
  if (t.parallel.prefill_replicas >= replicas && t.parallel.prefill_replicas > 0) {
    Fail("{}: {} of {} replicas compute prompts only; leave one that decodes", where, t.parallel.prefill_replicas,
         replicas);
  }
  for (const int port : t.transport.ports) {
    if (port + 2 * (replicas - 1) > 65535)
      Fail("{}: transport.ports: replica {} would need port {}", where, replicas - 1, port + 2 * (replicas - 1));
  }
  const size_t ports = t.transport.ports.size();
  if (replicas > 1 && ports == 2 && (t.transport.ports[0] - t.transport.ports[1]) % 2 == 0) {
    Fail("{}: transport.ports {} and {}: replica r takes both plus 2r, so one must be odd and the other even", where,
         t.transport.ports[0], t.transport.ports[1]);
  }
}

/// Returns the part of MPI's ports for `count` groups of workers, of which the first is group `first` of `all`. Returns
/// all ports when there are too few to divide them.
std::vector<int> PortsOfGroups(const std::vector<int>& ports, int first, int count, int all) {
  const int each = ports.size() == 2 ? (ports[1] - ports[0] + 1) / all : 0;
  if (each < kFewestMpiPorts) return ports;
  return {ports[0] + first * each, ports[0] + (first + count) * each - 1};
}

/// Returns the endpoint for another group of workers: with the port plus `by`, or with ".N" after the path of an IPC
/// endpoint.
std::string ShiftedEndpoint(const std::string& endpoint, int by) {
  if (by == 0 || endpoint.empty()) return endpoint;
  if (!endpoint.starts_with("tcp://")) return fmt::format("{}.{}", endpoint, by);
  const size_t colon = endpoint.rfind(':');
  const auto port = ParseNumber<int>(endpoint.substr(colon + 1));
  return port ? fmt::format("{}:{}", endpoint.substr(0, colon), *port + by) : endpoint;
}

void ShiftKvEvents(Topology::KvEvents& events, int by) {
  events.bind = events.binds();  // keeps the decision for the original endpoint
  events.endpoint = ShiftedEndpoint(events.endpoint, by);
  events.replay_endpoint = ShiftedEndpoint(events.replay_endpoint, by);
}

constexpr int kMostRanks = 1024;  // most ranks in a group; comm/wire/messages.cc refuses messages that name more
constexpr size_t kMostModels = 64, kMostAdapters = 1024, kLongestName = 256;

/// Throws Error when two adapters, or an adapter and the model, have the same name, when there are too many adapters,
/// or when a name is too long.
void CheckAdapters(const Topology::Model& model, const std::string& where) {
  if (model.adapters.size() > kMostAdapters)
    Fail("{}: {} adapters; at most {} are served", where, model.adapters.size(), kMostAdapters);
  std::vector<std::string> names = model.aliases;
  names.push_back(model.name);
  for (const AdapterSetting& adapter : model.adapters) {
    const std::string name = adapter.name.substr(0, kLongestName);
    if (adapter.name.size() > kLongestName) Fail("{}: adapter {}...: the name is too long", where, name);
    if (std::ranges::count(names, adapter.name) > 0)
      Fail("{}: two models are called \"{}\"; give the adapter another name (--lora-modules, adapters)", where, name);
    names.push_back(adapter.name);
  }
}

/// Throws Error unless the endpoint is ipc:///PATH or tcp://ADDRESS:PORT, with valid ports from PORT on for all
/// replicas.
void CheckEndpoint(const std::string& key, const std::string& endpoint, int replicas, const std::string& where) {
  if (endpoint.starts_with("ipc:///")) return;
  const auto address = endpoint.starts_with("tcp://") ? ParseHostPort(endpoint.substr(6)) : std::nullopt;
  if (!address || address->port == 0)
    Fail("{}: kv_events.{} \"{}\" must be tcp://ADDRESS:PORT or ipc:///PATH", where, key, endpoint);
  if (address->port + replicas - 1 > 65535)
    Fail("{}: kv_events.{} {} leaves no ports for {} replicas", where, key, endpoint, replicas);
}

void CheckKvEvents(const Topology::KvEvents& events, int replicas, const std::string& where) {
  CheckEndpoint("endpoint", events.endpoint, replicas, where);
  if (!events.replay_endpoint.empty()) CheckEndpoint("replay_endpoint", events.replay_endpoint, replicas, where);
}

/// Validates each model of a list. Throws Error when two models have the same name, or when the models cannot share
/// this host.
void CheckModels(const Topology& t, const std::string& where) {
  if (t.models.size() > kMostModels) Fail("{}: {} models; at most {} are served", where, t.models.size(), kMostModels);
  std::set<std::string> names;
  for (size_t i = 0; i < t.models.size(); ++i) {
    const Topology::Model& model = t.models[i].model;
    const std::string place = fmt::format("{}: model \"{}\"", where, model.name.substr(0, kLongestName));
    if (model.name.size() > kLongestName) Fail("{}...: the name is too long", place);
    ValidateTopology(ModelTopology(t, i), place);
    if (t.models.size() > 1 && !OnThisHost(ModelTopology(t, i)))
      Fail("{}: several models share this host; leave nodes on other hosts out", place);
    std::vector<std::string> own = model.aliases;
    own.push_back(model.name);
    for (const AdapterSetting& adapter : model.adapters) own.push_back(adapter.name);
    for (const std::string& name : own) {
      if (!name.empty() && !names.insert(name).second)
        Fail("{}: two models are called \"{}\"; give one of them another name (models)", where,
             name.substr(0, kLongestName));
    }
  }
  const std::vector<int>& ports = t.transport.ports;
  if (t.models.size() > 1 && ports.size() == 2 && (ports[0] - ports[1]) % 2 == 0)
    Fail(
        "{}: transport.ports {} and {}: each group of workers takes both plus 2, so one must be odd and the other "
        "even",
        where, ports[0], ports[1]);
}

}  // namespace

size_t NumModels(const Topology& topology) { return std::max<size_t>(1, topology.models.size()); }

Topology ModelTopology(const Topology& topology, size_t model) {
  Topology one = topology;
  one.models.clear();
  if (topology.models.empty()) return one;
  static_cast<ModelSettings&>(one) = topology.models[model];
  if (topology.models.size() == 1) return one;
  int groups_before = 0, groups = 0;
  for (size_t i = 0; i < topology.models.size(); ++i) {
    if (i < model) groups_before += topology.models[i].parallel.replicas;
    groups += topology.models[i].parallel.replicas;
  }
  for (int& port : one.transport.ports) port += 2 * groups_before;
  one.transport.mpi_ports = PortsOfGroups(topology.transport.mpi_ports, groups_before, one.parallel.replicas, groups);
  if (!one.journal.empty()) one.journal += fmt::format("/model-{}", model);
  ShiftKvEvents(one.kv_events, groups_before);
  return one;
}

Topology ReplicaTopology(const Topology& topology, int replica) {
  Topology one = topology;
  if (topology.parallel.replicas == 1) return one;
  one.parallel.replica = replica;
  for (int& port : one.transport.ports) port += 2 * replica;
  // Each replica has an mpirun of its own, so each replica needs its own part of the ports.
  one.transport.mpi_ports = PortsOfGroups(one.transport.mpi_ports, replica, 1, topology.parallel.replicas);
  if (!one.journal.empty()) one.journal += fmt::format("/replica-{}", replica);
  ShiftKvEvents(one.kv_events, replica);
  return one;
}

bool Topology::KvEvents::binds() const {
  if (bind) return *bind;
  return endpoint == KvEvents().endpoint || endpoint.starts_with("ipc://") || endpoint.find('*') != std::string::npos ||
         endpoint.find("::") != std::string::npos;
}

void ValidateTopology(const Topology& t, const std::string& where) {
  if (t.model.path.empty()) Fail("{}: no model; give model.path or --model", where);
  if (!t.parallel.shares.empty() && t.parallel.shares.size() != static_cast<size_t>(t.parallel.tensor)) {
    Fail("{}: {} shares for tensor parallel size {}", where, t.parallel.shares.size(), t.parallel.tensor);
  }
  if (!t.parallel.stages.empty() && t.parallel.stages.size() != static_cast<size_t>(t.parallel.pipeline)) {
    Fail("{}: parallel.stages lists {} stages for pipeline parallel size {}", where, t.parallel.stages.size(),
         t.parallel.pipeline);
  }
  if (t.parallel.num_ranks() > kMostRanks) {
    Fail("{}: tensor parallel size {} times pipeline parallel size {} is more than {} workers; use replicas", where,
         t.parallel.tensor, t.parallel.pipeline, kMostRanks);
  }
  CheckModels(t, where);
  CheckReplicas(t, where);
  CheckAdapters(t.model, where);
  if (!t.cache.disk.dir.empty() && !t.cache.prefix_caching)
    Fail("{}: cache.disk keeps blocks of the prefix cache, and cache.prefix_caching is false; give one of both", where);
  const auto check_listener = [&](const char* name, const Topology::Listener& listener) {
    if (!ParseHostPort(listener.listen))
      Fail("{}: {}.listen \"{}\" must be ADDRESS:PORT", where, name, listener.listen);
    if (listener.certificate.empty() != listener.key.empty())
      Fail("{}: {}.tls needs both a certificate and its key", where, name);
  };
  check_listener("server", t.server);
  check_listener("admin", t.admin);
  if (!t.metrics.listen.empty() && !ParseHostPort(t.metrics.listen))
    Fail("{}: metrics.listen \"{}\" must be ADDRESS:PORT", where, t.metrics.listen);
  if (t.logs.access == AccessLog::kOff && !t.logs.access_file.empty())
    Fail("{}: an access log file needs --access-log text or json (logs.access)", where);
  if (t.logs.format == LogFormat::kJson && t.logs.access == AccessLog::kText && t.logs.access_file.empty())
    Fail(
        "{}: with --log-format json every line on standard error is JSON, and an access log of text is not: give "
        "--access-log json, or --access-log-file FILE",
        where);
  if (t.server.listen == t.admin.listen && ParseHostPort(t.server.listen)->port != 0) {
    Fail("{}: server and admin both listen on {}", where, t.server.listen);
  }
  if (!t.key_limits.empty() && t.server.key_file.empty())
    Fail("{}: server.key_limits are for clients with keys; give server.api_keys or --api-key-file", where);
  if (!t.transport.bind.empty() && (t.transport.ports.size() != 2 || t.transport.ports[0] == t.transport.ports[1])) {
    Fail("{}: transport.ports must be two different ports: data and control", where);
  }
  if (t.launch.method == LaunchMethod::kExternal && t.transport.bind.empty()) {
    Fail("{}: launch.method external needs transport.bind and transport.ports, so that workers know where to connect",
         where);
  }
  if (t.kv_events.enabled) CheckKvEvents(t.kv_events, t.parallel.replicas, where);
  ValidateNodes(t, where);
  const int max_step_tokens = t.scheduler.max_step_tokens;
  if (max_step_tokens > 0 && max_step_tokens < t.scheduler.max_running) {
    Fail("{}: {} tokens per step cannot serve {} running sequences; raise max_step_tokens or lower max_running", where,
         max_step_tokens, t.scheduler.max_running);
  }
}

std::optional<HostPort> ParseHostPort(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  const auto port = ParseNumber<int>(text.substr(colon + 1));
  if (host.empty() || !port || *port < 0 || *port > 65535) return std::nullopt;
  return HostPort{host, static_cast<uint16_t>(*port)};
}

std::optional<int64_t> ParseBytes(const std::string& text) {
  static const std::map<std::string, int64_t> kUnits = {
      {"", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", int64_t{1} << 40}};
  const size_t unit = std::min(text.find_first_not_of("0123456789."), text.size());
  const auto value = ParseNumber<double>(text.substr(0, unit));
  const auto it = kUnits.find(text.substr(unit));
  if (!value || it == kUnits.end() || *value < 0 || *value * static_cast<double>(it->second) > 1e18)
    return std::nullopt;
  return static_cast<int64_t>(*value * static_cast<double>(it->second));
}

}  // namespace quire

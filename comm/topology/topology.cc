#include "comm/topology/topology.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "comm/base/error.h"
#include "comm/base/plain_word.h"
#include "comm/base/yaml_tree.h"

namespace quire {

namespace {

template <class T>
std::optional<T> ParseNumber(const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool leading_zero = text.size() > 1 && text[0] == '0' && text[1] != '.';
  if (text.empty() || error != std::errc() || stop != end || leading_zero) return std::nullopt;
  return value;
}

/// A mapping whose keys are taken one by one; what is left over at the end is unknown.
class Section {
 public:
  Section(const YamlNode& node, std::string name, const std::string& file)
      : node_(node), name_(std::move(name)), file_(file) {
    if (node.kind != YamlNode::Kind::kMapping) Refuse(node, "expected a mapping");
  }

  const YamlNode* Take(const std::string& key) {
    taken_.push_back(key);
    return node_.Find(key);
  }
  void Text(const std::string& key, std::string& out) {
    if (const YamlNode* node = Take(key)) out = Scalar(*node, key);
  }
  void Choice(const std::string& key, std::string& out, std::initializer_list<const char*> allowed) {
    const YamlNode* node = Take(key);
    if (node == nullptr) return;
    out = Scalar(*node, key);
    if (std::find(allowed.begin(), allowed.end(), out) == allowed.end()) {
      Refuse(*node, fmt::format("{} must be one of {}, not \"{}\"", key, fmt::join(allowed, ", "), out));
    }
  }
  void Integer(const std::string& key, int& out, int low, int high) {
    if (const YamlNode* node = Take(key)) out = IntegerOf(*node, key, low, high);
  }
  void Integers(const std::string& key, std::vector<int>& out, int low, int high) {
    if (const YamlNode* node = Take(key)) Integers(*node, key, out, low, high);
  }
  void Integers(const YamlNode& node, const std::string& key, std::vector<int>& out, int low, int high) {
    for (const YamlNode& item : Sequence(node, key)) out.push_back(IntegerOf(item, key, low, high));
  }
  void Reals(const YamlNode& node, const std::string& key, std::vector<double>& out) {
    for (const YamlNode& item : Sequence(node, key)) {
      const auto value = ParseNumber<double>(Scalar(item, key));
      if (!value || !(*value > 0)) Refuse(item, key + " must be positive numbers");
      out.push_back(*value);
    }
  }
  void Texts(const std::string& key, std::vector<std::string>& out) {
    if (const YamlNode* node = Take(key)) {
      for (const YamlNode& item : Sequence(*node, key)) out.push_back(Scalar(item, key));
    }
  }
  void Fraction(const std::string& key, double& out) {
    const YamlNode* node = Take(key);
    if (node == nullptr) return;
    const auto value = ParseNumber<double>(Scalar(*node, key));
    if (!value || !(*value >= 0 && *value <= 1)) Refuse(*node, key + " must be a number from 0 to 1");
    out = *value;
  }
  void Flag(const std::string& key, bool& out) {
    const YamlNode* node = Take(key);
    if (node == nullptr) return;
    const std::string text = Scalar(*node, key);
    if (text != "true" && text != "false") Refuse(*node, key + " must be true or false");
    out = text == "true";
  }
  void Bytes(const std::string& key, int64_t& out, int64_t low = 0) {
    const YamlNode* node = Take(key);
    if (node == nullptr) return;
    const auto value = ParseBytes(Scalar(*node, key));
    if (!value) Refuse(*node, key + " must be a size such as 8GiB");
    if (*value < low) Refuse(*node, fmt::format("{} must be at least {} bytes", key, low));
    out = *value;
  }
  void Done() const {
    for (const auto& [key, node] : node_.entries) {
      if (std::find(taken_.begin(), taken_.end(), key) == taken_.end()) {
        Refuse(node, fmt::format("unknown key \"{}\"; known: {}", key, fmt::join(taken_, ", ")));
      }
    }
  }
  [[noreturn]] void Refuse(const YamlNode& node, const std::string& reason) const {
    Fail("{}:{}: {}{}", file_, node.line, name_.empty() ? "" : name_ + ": ", reason);
  }
  std::string Scalar(const YamlNode& node, const std::string& key) const {
    if (node.kind != YamlNode::Kind::kScalar || (node.scalar.empty() && !node.quoted))
      Refuse(node, key + " must be a single value");
    return node.scalar;
  }

 private:
  int IntegerOf(const YamlNode& node, const std::string& key, int low, int high) const {
    const auto value = ParseNumber<int>(Scalar(node, key));
    if (!value || *value < low || *value > high) {
      Refuse(node, fmt::format("{} must be an integer from {} to {}", key, low, high));
    }
    return *value;
  }
  const std::vector<YamlNode>& Sequence(const YamlNode& node, const std::string& key) const {
    if (node.kind != YamlNode::Kind::kSequence) Refuse(node, key + " must be a list");
    return node.items;
  }

  const YamlNode& node_;
  std::string name_;
  const std::string& file_;
  std::vector<std::string> taken_;
};

void ReadParallel(Section section, Topology::Parallel& parallel) {
  section.Integer("tensor", parallel.tensor, 1, 1024);
  section.Integer("replicas", parallel.replicas, 1, 256);
  section.Integer("prefill_replicas", parallel.prefill_replicas, 0, 255);
  if (const YamlNode* shares = section.Take("shares"); shares != nullptr && shares->scalar != "auto") {
    section.Reals(*shares, "shares", parallel.shares);
  }
  section.Done();
}

void ReadCache(Section section, Topology::Cache& cache) {
  section.Integer("block_size", cache.block_size, 1, 256);
  section.Choice("dtype", cache.dtype, {"auto", "fp8", "float32", "float16", "int8"});
  section.Fraction("memory", cache.memory);
  section.Bytes("memory_bytes", cache.memory_bytes);
  section.Integer("num_blocks", cache.num_blocks, 1, INT32_MAX - 1);
  section.Bytes("host_swap", cache.host_swap_bytes);
  section.Flag("prefix_caching", cache.prefix_caching);
  section.Fraction("watermark", cache.watermark);
  section.Done();
}

void ReadScheduler(Section section, Topology::Scheduler& scheduler) {
  section.Integer("max_running", scheduler.max_running, 1, 65536);
  section.Integer("max_waiting", scheduler.max_waiting, 0, 1 << 20);
  section.Integer("max_step_tokens", scheduler.max_step_tokens, 1, 1 << 20);
  section.Integer("max_model_len", scheduler.max_model_len, 1, 1 << 24);
  section.Choice("preemption", scheduler.preemption, {"auto", "recompute", "swap"});
  section.Flag("plan_ahead", scheduler.plan_ahead);
  section.Done();
}

void ReadNodes(const YamlNode& list, const std::string& file, std::vector<Topology::Node>& nodes) {
  if (list.kind != YamlNode::Kind::kSequence) Fail("{}:{}: nodes must be a list", file, list.line);
  for (const YamlNode& item : list.items) {
    Section section(item, "nodes", file);
    Topology::Node node;
    section.Text("host", node.host);
    section.Integers("devices", node.devices, 0, 1023);
    section.Text("interface", node.interface);
    section.Integer("slots", node.slots, 1, 1024);
    section.Flag("spare", node.spare);
    section.Done();
    const bool safe =
        !node.host.empty() && node.host.size() <= 253 && node.host[0] != '-' && IsMadeOf(node.host, ".:-");
    if (!safe) section.Refuse(item, "host must be a host name or an address");
    nodes.push_back(std::move(node));
  }
}

void ReadLimits(Section section, Topology::Limits& limits) {
  constexpr int kLongestSeconds = 7 * 24 * 3600;
  section.Integer("head_seconds", limits.head_seconds, 1, kLongestSeconds);
  section.Integer("body_seconds", limits.body_seconds, 1, kLongestSeconds);
  section.Integer("body_bytes_per_second", limits.body_bytes_per_second, 1, 1 << 30);
  section.Integer("idle_seconds", limits.idle_seconds, 1, kLongestSeconds);
  section.Integer("write_seconds", limits.write_seconds, 1, kLongestSeconds);
  section.Integer("write_bytes_per_second", limits.write_bytes_per_second, 1, 1 << 30);
  section.Integer("connections", limits.connections, 1, 1 << 20);
  section.Integer("connections_per_address", limits.connections_per_address, 1, 1 << 20);
  section.Bytes("memory_bytes", limits.memory_bytes, Topology::Limits::kLeastMemory);
  section.Bytes("memory_bytes_per_client", limits.memory_bytes_per_client, Topology::Limits::kLeastMemory);
  section.Integer("queue_seconds", limits.queue_seconds, 1, kLongestSeconds);
  section.Integer("request_seconds", limits.request_seconds, 1, kLongestSeconds);
  section.Done();
}

void ReadTls(Section section, Topology::Listener& listener) {
  section.Text("certificate", listener.certificate);
  section.Text("key", listener.key);
  section.Done();
}

void ReadLogs(Section section, Topology::Logs& logs) {
  section.Choice("access", logs.access, {"off", "text", "json"});
  section.Text("access_file", logs.access_file);
  section.Text("audit_file", logs.audit_file);
  section.Done();
}

void ReadKeyLimits(const YamlNode& node, const std::string& file, std::map<std::string, Topology::KeyLimits>& limits) {
  if (node.kind != YamlNode::Kind::kMapping) Fail("{}:{}: server.key_limits: expected a mapping", file, node.line);
  for (const auto& [name, entry] : node.entries) {
    Section section(entry, fmt::format("server.key_limits.{}", name), file);
    if (name.empty() || name.size() > 64 || !IsMadeOf(name, "-_.@"))
      section.Refuse(entry, "must stand under the name of a key, or under default");
    Topology::KeyLimits& of_key = limits[name];
    section.Integer("max_running_seqs", of_key.max_running_seqs, 1, 65536);
    section.Integer("max_queued_reqs", of_key.max_queued_reqs, 0, 1 << 20);
    int per_minute = 0;
    section.Integer("tokens_per_minute", per_minute, 1, INT32_MAX);
    of_key.tokens_per_minute = per_minute;
    section.Integer("max_blocks", of_key.max_blocks, 1, INT32_MAX - 1);
    section.Done();
  }
}

void ReadServer(Section section, const std::string& file, Topology& t) {
  section.Text("listen", t.server.listen);
  section.Text("api_keys", t.server.key_file);
  section.Flag("allow_unauthenticated", t.server.allow_unauthenticated);
  section.Texts("allowed_origins", t.server.allowed_origins);
  section.Texts("allowed_hosts", t.server.allowed_hosts);
  section.Flag("chat_page", t.server.chat_page);
  if (const YamlNode* tls = section.Take("tls")) ReadTls(Section(*tls, "server.tls", file), t.server);
  if (const YamlNode* limits = section.Take("limits")) ReadLimits(Section(*limits, "server.limits", file), t.limits);
  if (const YamlNode* limits = section.Take("key_limits")) ReadKeyLimits(*limits, file, t.key_limits);
  section.Done();
}

void ReadAdmin(Section section, const std::string& file, Topology::Listener& admin) {
  section.Text("listen", admin.listen);
  section.Text("token", admin.key_file);
  if (const YamlNode* tls = section.Take("tls")) ReadTls(Section(*tls, "admin.tls", file), admin);
  section.Done();
}

void ReadTransport(Section section, Topology::Transport& transport) {
  section.Text("bind", transport.bind);
  section.Integers("ports", transport.ports, 1, 65535);
  section.Text("keys", transport.keys);
  section.Flag("insecure", transport.insecure);
  section.Choice("private_network", transport.private_network, {"auto", "on", "off"});
  if (const YamlNode* ports = section.Take("mpi_ports")) {
    transport.mpi_ports.clear();
    section.Integers(*ports, "mpi_ports", transport.mpi_ports, 1024, 65535);
  }
  section.Done();
}

void ReadLaunch(Section section, Topology::Launch& launch) {
  section.Choice("method", launch.method, {"mpirun", "external"});
  section.Text("agent", launch.agent);
  section.Text("worker", launch.worker);
  section.Texts("args", launch.args);
  section.Done();
}

}  // namespace

Topology TopologyFromYaml(const std::string& text, const std::string& file) {
  const YamlNode document = ParseYaml(text, file);
  Topology t;
  Section root(document, "", file);
  if (const YamlNode* node = root.Take("model")) {
    Section section(*node, "model", file);
    section.Text("path", t.model.path);
    section.Text("name", t.model.name);
    section.Text("checksums", t.model.checksums);
    section.Text("tool_call_parser", t.model.tool_call_parser);
    section.Text("reasoning_parser", t.model.reasoning_parser);
    section.Done();
  }
  root.Choice("backend", t.backend, {"auto", "cpu", "cuda"});
  if (const YamlNode* node = root.Take("parallel")) ReadParallel(Section(*node, "parallel", file), t.parallel);
  if (const YamlNode* node = root.Take("nodes")) ReadNodes(*node, file, t.nodes);
  if (const YamlNode* node = root.Take("cache")) ReadCache(Section(*node, "cache", file), t.cache);
  if (const YamlNode* node = root.Take("scheduler")) ReadScheduler(Section(*node, "scheduler", file), t.scheduler);
  if (const YamlNode* node = root.Take("server")) ReadServer(Section(*node, "server", file), file, t);
  if (const YamlNode* node = root.Take("admin")) ReadAdmin(Section(*node, "admin", file), file, t.admin);
  if (const YamlNode* node = root.Take("logs")) ReadLogs(Section(*node, "logs", file), t.logs);
  if (const YamlNode* node = root.Take("metrics")) {
    Section section(*node, "metrics", file);
    section.Text("listen", t.metrics.listen);
    section.Done();
  }
  if (const YamlNode* node = root.Take("transport")) ReadTransport(Section(*node, "transport", file), t.transport);
  if (const YamlNode* node = root.Take("launch")) ReadLaunch(Section(*node, "launch", file), t.launch);
  root.Integer("threads_per_worker", t.threads_per_worker, 1, 1024);
  root.Done();
  return t;
}

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

}  // namespace

Topology ReplicaTopology(const Topology& topology, int replica) {
  Topology one = topology;
  if (topology.parallel.replicas == 1) return one;
  one.parallel.replica = replica;
  for (int& port : one.transport.ports) port += 2 * replica;
  if (!one.journal.empty()) one.journal += fmt::format("/replica-{}", replica);
  return one;
}

void ValidateTopology(const Topology& t, const std::string& where) {
  if (t.model.path.empty()) Fail("{}: no model; give model.path or --model", where);
  if (!t.parallel.shares.empty() && t.parallel.shares.size() != static_cast<size_t>(t.parallel.tensor)) {
    Fail("{}: {} shares for tensor parallel size {}", where, t.parallel.shares.size(), t.parallel.tensor);
  }
  CheckReplicas(t, where);
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
  if (t.logs.access == "off" && !t.logs.access_file.empty())
    Fail("{}: an access log file needs --access-log text or json (logs.access)", where);
  if (t.server.listen == t.admin.listen && ParseHostPort(t.server.listen)->port != 0) {
    Fail("{}: server and admin both listen on {}", where, t.server.listen);
  }
  if (!t.key_limits.empty() && t.server.key_file.empty())
    Fail("{}: server.key_limits are for clients with keys; give server.api_keys or --api-key-file", where);
  if (!t.transport.bind.empty() && (t.transport.ports.size() != 2 || t.transport.ports[0] == t.transport.ports[1])) {
    Fail("{}: transport.ports must be two different ports: data and control", where);
  }
  if (t.launch.method == "external" && t.transport.bind.empty()) {
    Fail("{}: launch.method external needs transport.bind and transport.ports, so that workers know where to connect",
         where);
  }
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

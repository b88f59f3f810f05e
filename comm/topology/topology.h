#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/base/log_level.h"
#include "comm/base/yaml_tree.h"
#include "comm/topology/compute_settings.h"
#include "comm/topology/load_format.h"
#include "comm/topology/model_settings.h"
#include "comm/topology/preemption_mode.h"

namespace quire {

/// What is written of each request.
enum class AccessLog { kOff, kText, kJson };
constexpr auto ChoicesOf(AccessLog) {
  return std::to_array<Choice<AccessLog>>(
      {{AccessLog::kOff, "off"}, {AccessLog::kText, "text"}, {AccessLog::kJson, "json"}});
}

/// Whether mpirun runs where nobody on the network can reach it; kAuto: where that is possible.
enum class PrivateNetworkMode { kAuto, kOn, kOff };
constexpr auto ChoicesOf(PrivateNetworkMode) {
  return std::to_array<Choice<PrivateNetworkMode>>(
      {{PrivateNetworkMode::kAuto, "auto"}, {PrivateNetworkMode::kOn, "on"}, {PrivateNetworkMode::kOff, "off"}});
}

/// Who starts the workers; kExternal: somebody else does.
enum class LaunchMethod { kMpirun, kExternal };
constexpr auto ChoicesOf(LaunchMethod) {
  return std::to_array<Choice<LaunchMethod>>(
      {{LaunchMethod::kMpirun, "mpirun"}, {LaunchMethod::kExternal, "external"}});
}

/// Everything a deployment is made of, from a YAML file (deploy/topologies/) or from flags. Immutable once validated.
/// The initialisers are the documented defaults.
struct Topology {
  struct Model {
    std::string path;
    std::string name;  // as clients see it; empty: the last part of the path
    LoadFormat load_format = LoadFormat::kAuto;
    std::string checksums;  // list of sha256sum that its files are compared with before they are read; empty: none
    // Names of parsers, which the coordinator alone knows and looks up at the start; auto: its template says it.
    std::string tool_call_parser = "auto";  // how it writes calls of tools
    std::string reasoning_parser = "auto";  // how it sets thoughts apart
    PoolingMode pooling = PoolingMode::kAuto;
    ScoringMode scoring = ScoringMode::kAuto;
    GenerationConfigMode generation_config = GenerationConfigMode::kAuto;
    bool operator==(const Model&) const = default;
  } model;

  ComputeSettings compute;

  struct Parallel {
    int tensor = 1;
    int replicas = 1;            // tensor-parallel groups, each with all of the model
    int prefill_replicas = 0;    // the first so many compute prompts only; the others decode
    int replica = 0;             // of a ReplicaTopology: which one
    std::vector<double> shares;  // weight per rank; empty: equal ("auto")
    bool operator==(const Parallel&) const = default;
  } parallel;

  struct Node {
    std::string host;
    std::vector<int> devices;  // of its ranks, in their order; empty: 0, 1, ...
    std::string interface;     // name or network (10.0.0.0/24) that ranks talk over; empty: MPI chooses
    int slots = 0;             // ranks it takes; 0: as many as devices, and without those an even share
    bool spare = false;        // stands in for a node that is left out
    int ranks_of_all = 0;      // of a replica's topology: ranks that all replicas have there
    bool operator==(const Node&) const = default;
  };
  std::vector<Node> nodes;  // empty: this host

  struct Cache {
    int block_size = 16;       // tokens
    double memory = 0.90;      // share of the memory that is free once the weights are loaded
    int64_t memory_bytes = 0;  // per rank; above 0 it replaces `memory`
    int num_blocks = 0;        // above 0 it replaces both
    int64_t host_swap_bytes = 0;
    bool prefix_caching = true;
    double watermark = 0.01;
    bool operator==(const Cache&) const = default;
  } cache;

  struct Scheduler {
    int max_running = 256;          // sequences
    int max_waiting = 1024;         // sequences beyond those that run; more are refused
    int max_step_tokens = 0;        // 0: 512 on the CPU, 2048 on GPUs
    bool auto_step_tokens = false;  // of those as many as the target below has time for, which is 100 ms then
    int target_inter_token_ms = 0;  // between two tokens of a stream; 0: none
    int max_model_len = 0;          // 0: what the model was trained for
    PreemptionMode preemption = PreemptionMode::kAuto;
    bool plan_ahead = true;  // send a step while the one before it runs
    bool operator==(const Scheduler&) const = default;
  } scheduler;

  struct Listener {
    std::string listen;
    std::string key_file;                      // who may call: API keys, or the admin's token; empty: everybody who can
    bool allow_unauthenticated = false;        // server only: serve without keys beyond loopback, too
    std::vector<std::string> allowed_origins;  // server only: of web pages that may ask; "*": of all, with keys
    std::vector<std::string> allowed_hosts;    // server only: names that are answered beside localhost
    std::string certificate, key;              // PEM files for TLS; empty: clear text
    bool chat_page = true;                     // server only: serve the chat page at / and /chat
    bool ignore_unknown_fields = false;        // server only: of requests; else those are refused
    bool operator==(const Listener&) const = default;
  };
  Listener server{.listen = "127.0.0.1:8000"};

  /// What clients of the data port may take (server.limits; README.md, Limits).
  struct Limits {
    static constexpr int64_t kLargestBody = 2 << 20;
    static constexpr int64_t kLeastMemory = 32 << 20;  // room for the work on a largest body, whatever it is
    int head_seconds = 10;                             // until the head of a request is there
    int body_seconds = 30;                             // until its body is, after that
    int body_bytes_per_second = 4096;                  // that a body comes with at least, on average after ten seconds
    int idle_seconds = 75;                             // a connection, between two requests
    int write_seconds = 30;                            // until a client that takes nothing is given up
    int write_bytes_per_second = 1024;                 // that a client takes at least, on average after write_seconds
    int connections = 16384;                           // at most; fewer where the process has not so many descriptors
    int connections_per_address = 1024;                // loopback excepted
    int64_t memory_bytes = 512 << 20;                  // of all requests, from body to answer; at least kLeastMemory
    int64_t memory_bytes_per_client = 0;               // of those of one API key; 0: half of memory_bytes
    int queue_seconds = 60;                            // before anything of a request was computed
    int request_seconds = 600;                         // from its arrival to its last token
    int drain_seconds = 30;                            // that requests have to end after SIGTERM
    bool operator==(const Limits&) const = default;
  } limits;

  /// What one API key may have and use up; 0, or nothing for the queue: no limit of its own.
  struct KeyLimits {
    int max_running_seqs = 0;       // sequences that run at a time, in each replica
    int max_queued_reqs = -1;       // choices beyond those that may run; more are refused
    int64_t tokens_per_minute = 0;  // of prompts and answers
    int max_blocks = 0;             // KV blocks that its running requests take at their longest, in each replica
    bool operator==(const KeyLimits&) const = default;
  };
  std::map<std::string, KeyLimits> key_limits;  // server.key_limits, by key name; "default": of all others

  Listener admin{.listen = "127.0.0.1:8001"};

  struct Logs {
    LogLevel level = LogLevel::kInfo;  // of the program's own lines
    AccessLog access = AccessLog::kOff;
    std::string access_file;  // empty: standard error
    std::string audit_file;   // what operators did; empty: standard error
    bool operator==(const Logs&) const = default;
  } logs;

  /// A port that serves /metrics alone, in clear text and without keys, for collectors that do not reach the admin
  /// port.
  struct Metrics {
    std::string listen;  // empty: there is none
    bool operator==(const Metrics&) const = default;
  } metrics;

  /// Spans of requests, for a collector of OpenTelemetry.
  struct Traces {
    std::string endpoint;  // URL; empty: none are sent
    bool operator==(const Traces&) const = default;
  } traces;

  struct Transport {
    std::string bind;        // address; empty: a Unix socket on this host
    std::vector<int> ports;  // data, control
    std::string keys;        // directory (comm/wire/curve_keys.h); empty: neither encryption nor authentication
    bool insecure = false;   // no keys although other machines can reach it
    std::vector<int> mpi_ports = {46000, 46099};  // first and last of what MPI listens on, on several nodes
    PrivateNetworkMode private_network = PrivateNetworkMode::kAuto;  // on one host
    bool operator==(const Transport&) const = default;
  } transport;

  struct Launch {
    LaunchMethod method = LaunchMethod::kMpirun;
    std::string agent = "ssh";  // program that runs a command on a node: AGENT HOST COMMAND
    std::string worker;         // path of quire-worker on every node; empty: where it is on this one
    std::vector<std::string> args;
    bool operator==(const Launch&) const = default;
  } launch;

  std::string journal;          // directory of the step journal; empty: none is kept
  std::optional<int64_t> seed;  // of requests that bring none; absent: random

  int threads_per_worker = 0;  // 0: the cores divided by the workers of a host
  bool operator==(const Topology&) const = default;
};

/// A setting that is given beside the file and replaces what the file says.
struct SettingOverride {
  std::string key;       // where a file has it: "cache.block_size"
  YamlNode value;        // as a file would have it there
  std::string given_as;  // for messages: "--block-size"
};

/// Reads a topology file, with `overrides` laid over it. Unknown, duplicate and ill-typed keys are errors of the form
/// "file:line: reason", or "--block-size: reason"; so are overrides that speak of the same key.
Topology TopologyFromYaml(const std::string& text, const std::string& file,
                          const std::vector<SettingOverride>& overrides = {});

/// What no single key can tell: throws Error naming the setting and the remedy. `where` begins the message.
void ValidateTopology(const Topology& topology, const std::string& where);

/// MPI's daemon takes a few ports of Transport::mpi_ports, each rank one, and one more if it takes blocks of other
/// groups.
inline constexpr int kFewestMpiPorts = 16;

/// The topology of one of the replicas, but for its nodes: its ports and its journal. Where there is but one, the
/// topology itself.
Topology ReplicaTopology(const Topology& topology, int replica);

/// True when all workers are on the coordinator's host: no node is listed, or localhost alone.
bool OnThisHost(const Topology& topology);

/// "localhost" and addresses that mean the same host everywhere.
bool StaysOnHost(const std::string& host);

/// What concerns the nodes: called by ValidateTopology.
void ValidateNodes(const Topology& topology, const std::string& where);

struct HostPort {
  std::string host;
  uint16_t port;
};
/// "127.0.0.1:8000" or "[::1]:8000".
std::optional<HostPort> ParseHostPort(const std::string& text);

/// "8GiB", "512MiB", "1048576" in bytes.
std::optional<int64_t> ParseBytes(const std::string& text);

}  // namespace quire

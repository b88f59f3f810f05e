#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/base/log_format.h"
#include "comm/base/log_level.h"
#include "comm/base/yaml_tree.h"
#include "comm/topology/compute_settings.h"
#include "comm/topology/load_format.h"
#include "comm/topology/model_life.h"
#include "comm/topology/model_settings.h"
#include "comm/topology/preemption_mode.h"

namespace quire {

/// The format of the access log, which has one entry for each request.
enum class AccessLog { kOff, kText, kJson };
constexpr auto ChoicesOf(AccessLog) {
  return std::to_array<Choice<AccessLog>>(
      {{AccessLog::kOff, "off"}, {AccessLog::kText, "text"}, {AccessLog::kJson, "json"}});
}

/// Whether mpirun runs in a private network namespace, which other machines cannot reach. kAuto: if the host allows
/// it.
enum class PrivateNetworkMode { kAuto, kOn, kOff };
constexpr auto ChoicesOf(PrivateNetworkMode) {
  return std::to_array<Choice<PrivateNetworkMode>>(
      {{PrivateNetworkMode::kAuto, "auto"}, {PrivateNetworkMode::kOn, "on"}, {PrivateNetworkMode::kOff, "off"}});
}

/// Where drafts (speculative decoding) come from. kPrediction uses the client's prediction. kNgram uses the prediction
/// and the sequence itself. kSuffix uses both, and earlier answers to the same client. kDraftModel uses the prediction
/// and a smaller model. kMtp uses the prediction and a prediction layer of the model's own files. kAuto works as
/// kSuffix where drafts save time on the CPU, and makes no drafts on GPUs.
enum class SpeculationMethod { kOff, kPrediction, kNgram, kSuffix, kDraftModel, kMtp, kAuto };
constexpr auto ChoicesOf(SpeculationMethod) {
  return std::to_array<Choice<SpeculationMethod>>({{SpeculationMethod::kOff, "off"},
                                                   {SpeculationMethod::kPrediction, "prediction"},
                                                   {SpeculationMethod::kNgram, "ngram"},
                                                   {SpeculationMethod::kSuffix, "suffix"},
                                                   {SpeculationMethod::kDraftModel, "draft_model"},
                                                   {SpeculationMethod::kMtp, "mtp"},
                                                   {SpeculationMethod::kAuto, "auto"}});
}

/// How workers are started. kExternal: another party starts them.
enum class LaunchMethod { kMpirun, kExternal };
constexpr auto ChoicesOf(LaunchMethod) {
  return std::to_array<Choice<LaunchMethod>>(
      {{LaunchMethod::kMpirun, "mpirun"}, {LaunchMethod::kExternal, "external"}});
}

/// A LoRA adapter that clients name as a model.
struct AdapterSetting {
  std::string name, path;  // the path is a PEFT directory
  bool operator==(const AdapterSetting&) const = default;
};

/// The settings of one model and of its workers. The initialisers are the documented defaults.
struct ModelSettings {
  struct Model {
    std::string path;
    std::string name;                  // shown to clients; empty: the last part of the path
    std::vector<std::string> aliases;  // other names that clients may use
    LoadFormat load_format = LoadFormat::kAuto;
    std::string checksums;  // file with sha256sum's output, checked before the model's files are read; empty: no check
    std::string chat_template;  // file that replaces the model's chat template; empty: the model's own
    // Names of parsers, which only the coordinator knows and looks up at the start. "auto": the model's chat template
    // decides.
    std::string tool_call_parser = "auto";  // syntax of tool calls
    std::string reasoning_parser = "auto";  // syntax of reasoning sections
    PoolingMode pooling = PoolingMode::kAuto;
    ScoringMode scoring = ScoringMode::kAuto;
    GenerationConfigMode generation_config = GenerationConfigMode::kAuto;
    std::vector<AdapterSetting> adapters;

    std::vector<std::string> AdapterPaths() const {
      std::vector<std::string> paths;
      for (const AdapterSetting& adapter : adapters) paths.push_back(adapter.path);
      return paths;
    }
    bool operator==(const Model&) const = default;
  } model;

  /// LoRA adapters that operators load while serving, beside model.adapters.
  struct Lora {
    std::vector<std::string> dirs;   // directories from which adapters may be loaded; empty: none is loaded
    int max_loaded = 16;             // adapters that may be loaded at the same time
    int max_rank = 0;                // largest rank, also of model.adapters; 0: any
    int64_t memory_bytes = 1 << 30;  // memory for these adapters on each rank, each weight in 32 bits
    bool operator==(const Lora&) const = default;
  } lora;

  ComputeSettings compute;
  bool exact = false;  // on the CPU: kAuto of compute.kv_cache_dtype and compute.activations is the finest type

  struct Parallel {
    int tensor = 1;              // ranks of a stage
    int pipeline = 1;            // stages
    int replicas = 1;            // groups of tensor * pipeline ranks, each with the whole model
    int prefill_replicas = 0;    // number of replicas, from the first on, that only compute prompts; the others decode
    int replica = 0;             // in a ReplicaTopology: index of the replica
    std::vector<double> shares;  // weight of each rank of a stage; empty: equal ("auto")
    std::vector<int> stages;     // layers of each stage, first stage first; empty: even by work ("auto")

    int num_ranks() const { return tensor * pipeline; }  // ranks in one replica
    bool operator==(const Parallel&) const = default;
  } parallel;

  struct Node {
    std::string host;
    std::vector<int> devices;  // devices of its ranks, in rank order; empty: 0, 1, ...
    std::string interface;     // name or network (10.0.0.0/24) for traffic between ranks; empty: MPI chooses
    int slots = 0;             // ranks on this node; 0: as many as devices, or an even share without devices
    bool spare = false;        // gets ranks only when another node is excluded
    int ranks_of_all = 0;      // in a replica's topology: ranks of all replicas on this node
    bool operator==(const Node&) const = default;
  };
  std::vector<Node> nodes;  // empty: this host

  struct Cache {
    int block_size = 16;       // tokens in a block
    double memory = 0.90;      // share of the memory that is free after the weights are loaded
    int64_t memory_bytes = 0;  // per rank; above 0 it replaces `memory`
    int num_blocks = 0;        // above 0 it replaces `memory` and `memory_bytes`
    int64_t host_swap_bytes = 0;
    bool prefix_caching = true;
    double watermark = 0.01;
    /// A directory that stores blocks of the prefix cache beyond the end of the process.
    struct Disk {
      std::string dir;                        // empty: no blocks are stored on disk
      int64_t max_bytes = int64_t{16} << 30;  // the most that all files in `dir` may have
      int days = 30;                          // files that were not used for so long are removed
      bool operator==(const Disk&) const = default;
    } disk;
    bool operator==(const Cache&) const = default;
  } cache;

  struct Scheduler {
    int max_running = 256;          // sequences that may run at the same time
    int max_waiting = 1024;         // sequences that wait; requests beyond are refused
    int max_step_tokens = 0;        // 0: 512 on the CPU, 2048 on GPUs
    bool auto_step_tokens = false;  // compute fewer tokens in a step to meet target_inter_token_ms (0: 100 ms)
    int target_inter_token_ms = 0;  // target time between two tokens of a stream; 0: none
    int max_model_len = 0;          // 0: the model's trained length
    PreemptionMode preemption = PreemptionMode::kAuto;
    bool plan_ahead = true;  // send a step while the previous step runs
    bool operator==(const Scheduler&) const = default;
  } scheduler;

  /// Speculative decoding: drafts are predicted tokens. The step that computes a draft also verifies it.
  struct Speculation {
    SpeculationMethod method = SpeculationMethod::kAuto;
    std::string draft_model;        // kDraftModel: its files, or ORG/NAME until they are found
    int num_tokens = 8;             // drafts of one sequence in a step, at most
    int lookup_min = 2;             // fewest tokens that must match the sequence's last tokens before a draft is copied
    int lookup_max = 8;             // most equal tokens that count when sources are compared
    int disable_by_batch_size = 8;  // steps of more sequences get no drafts
    bool operator==(const Speculation&) const = default;
  } speculation;

  ModelLife life;
  int threads_per_worker = 0;  // 0: a host's cores divided by its workers
  bool operator==(const ModelSettings&) const = default;
};

/// All settings of a deployment, from a YAML file (deploy/topologies/) or from flags. They do not change once
/// validated. The initialisers are the documented defaults. The inherited ModelSettings are the settings of the only
/// model, or of the first model of the list.
struct Topology : ModelSettings {
  std::vector<ModelSettings> models;  // every model, in the order of the list; empty: one model without a list
  int64_t models_memory_bytes = 0;    // bytes that all running workers may use; 0: a share of the free memory

  struct Listener {
    std::string listen;
    std::string key_file;                      // file of API keys, or of the admin token; empty: no authentication
    bool allow_unauthenticated = false;        // server only: serve without keys beyond loopback, too
    std::vector<std::string> allowed_origins;  // server only: origins of web pages; "*": all, requires keys
    std::vector<std::string> allowed_hosts;    // server only: host names accepted beside localhost
    std::string certificate, key;              // PEM files for TLS; empty: no TLS
    bool chat_page = true;                     // server only: serve the chat page at / and /chat
    bool ignore_unknown_fields = false;        // server only: accept unknown request fields
    bool operator==(const Listener&) const = default;
  };
  Listener server{.listen = "127.0.0.1:8000"};

  /// Limits for clients of the data port (server.limits; docs/limits.md).
  struct Limits {
    static constexpr int64_t kLargestBody = 2 << 20;
    static constexpr int64_t kLeastMemory = 32 << 20;  // room to process any body of kLargestBody
    int head_seconds = 10;                             // time to receive the head of a request
    int body_seconds = 30;                             // time to receive the body after the head
    int body_bytes_per_second = 4096;                  // slowest rate of a body, on average after ten seconds
    int idle_seconds = 75;                             // time that a connection may idle between two requests
    int write_seconds = 30;                            // time until a client that reads nothing is dropped
    int write_bytes_per_second = 1024;                 // slowest rate of reading, on average after write_seconds
    int connections = 16384;                           // most open connections; fewer if descriptors are fewer
    int connections_per_address = 1024;                // most open connections from one address; loopback is exempt
    int64_t memory_bytes = 512 << 20;                  // bytes for all requests, body to answer; at least kLeastMemory
    int64_t memory_bytes_per_client = 0;               // memory of one API key's requests; 0: half of memory_bytes
    int queue_seconds = 60;                            // time until the first token of a request is computed
    int request_seconds = 600;                         // time from arrival to the last token
    int drain_seconds = 30;                            // time that running requests get after SIGTERM
    bool operator==(const Limits&) const = default;
  } limits;

  /// Limits of one API key. 0 means that the key has no such limit. For max_queued_reqs, -1 means no limit.
  struct KeyLimits {
    int max_running_seqs = 0;       // sequences that may run at the same time, in each replica
    int max_queued_reqs = -1;       // choices that wait; requests beyond are refused
    int64_t tokens_per_minute = 0;  // prompt and answer tokens
    int max_blocks = 0;             // KV blocks of its running requests at their full length, in each replica
    bool operator==(const KeyLimits&) const = default;
  };
  std::map<std::string, KeyLimits> key_limits;  // server.key_limits, by key name; "default": all others

  Listener admin{.listen = "127.0.0.1:8001"};

  struct Logs {
    LogLevel level = LogLevel::kInfo;     // least serious level in the program's own log
    LogFormat format = LogFormat::kText;  // format of the lines in this log and in the workers' logs
    AccessLog access = AccessLog::kOff;
    std::string access_file;  // empty: standard error
    std::string audit_file;   // log of operators' actions; empty: standard error
    bool operator==(const Logs&) const = default;
  } logs;

  /// Where /metrics is served without keys besides the admin port, for collectors that cannot reach the admin port: on
  /// a port of its own without TLS, and on the data port.
  struct Metrics {
    std::string listen;         // empty: no such port
    bool on_data_port = false;  // serve /metrics on the data port, too, without a key
    bool operator==(const Metrics&) const = default;
  } metrics;

  /// Spans of requests, sent to an OpenTelemetry collector.
  struct Traces {
    std::string endpoint;  // URL; empty: none are sent
    bool operator==(const Traces&) const = default;
  } traces;

  /// Events of the prefix cache for external routers, published over ZeroMQ in vLLM's form (coordinator/cache_events).
  struct KvEvents {
    bool enabled = false;
    std::string endpoint = "tcp://127.0.0.1:5557";  // endpoint of replica 0; replica N uses the port plus N
    std::optional<bool> bind;     // true: listen; false: connect; absent: listen at *, IPC and the default endpoint
    std::string replay_endpoint;  // endpoint where subscribers request missed batches; empty: no replay
    int buffer_steps = 10'000;    // most batches that are stored for replay
    int hwm = 10'000;             // most batches that wait for a slow subscriber
    int max_queue_size = 10'000;  // most batches that wait to be published
    std::string topic;            // prefix of each message
    bool allow_unauthenticated = false;  // listen beyond loopback: the events show the tokens of prompts

    bool binds() const;
    bool operator==(const KvEvents&) const = default;
  } kv_events;

  /// Files and batches of clients: /v1/files, /v1/batches.
  struct Batches {
    std::string dir;                       // directory that holds them; empty: the endpoints refuse
    int64_t max_bytes = int64_t{4} << 30;  // the most that all files and results in `dir` may have
    int concurrency = 16;                  // requests of batches that may run at the same time
    bool operator==(const Batches&) const = default;
  } batches;

  struct Transport {
    std::string bind;        // address; empty: a Unix socket on this host
    std::vector<int> ports;  // data port, control port
    std::string keys;        // key directory (curve_keys.h); empty: neither encryption nor authentication
    bool insecure = false;   // allow missing keys although other machines can reach the ports
    std::vector<int> mpi_ports = {46000, 46099};                     // first and last port for MPI on several nodes
    PrivateNetworkMode private_network = PrivateNetworkMode::kAuto;  // used on one host
    bool operator==(const Transport&) const = default;
  } transport;

  struct Launch {
    LaunchMethod method = LaunchMethod::kMpirun;
    std::string agent = "ssh";  // program that runs a command on a node: AGENT HOST COMMAND
    std::string worker;         // path of quire-worker on every node; empty: as on this node
    std::vector<std::string> args;
    bool operator==(const Launch&) const = default;
  } launch;

  std::string journal;          // directory of the step journal; empty: no journal
  std::optional<int64_t> seed;  // for requests without a seed; absent: random

  bool operator==(const Topology&) const = default;
};

/// A setting from outside the topology file, for example from a flag. The setting replaces the file's value.
struct SettingOverride {
  std::string key;       // key path in a file: "cache.block_size"
  YamlNode value;        // the value as a topology file would state it
  std::string given_as;  // for messages: "--block-size"
};

/// Reads a topology file and applies `overrides` to it. Throws Error of the form "file:line: reason" or "--block-size:
/// reason" for keys that are unknown, duplicate or of the wrong type, and for two overrides of the same key.
Topology TopologyFromYaml(const std::string& text, const std::string& file,
                          const std::vector<SettingOverride>& overrides = {});

/// Checks the settings as a whole, after the check of each key's type. Throws Error that begins with `where` and names
/// the setting and the remedy.
void ValidateTopology(const Topology& topology, const std::string& where);

/// The fewest ports that Transport::mpi_ports must have for each replica. MPI's daemon takes a few, each rank takes
/// one, and a rank that receives KV blocks from other groups takes one more.
inline constexpr int kFewestMpiPorts = 16;

/// Returns the topology of one replica, with ports, journal and KV event endpoints of its own, but with all nodes. With
/// one replica, returns the topology itself.
Topology ReplicaTopology(const Topology& topology, int replica);

/// Returns the number of models, at least 1.
size_t NumModels(const Topology& topology);

/// Returns the topology of one model, without the list of models, and with ports, journal and KV event endpoints of its
/// own. If there is only one model, ports, journal and endpoints stay as they are.
Topology ModelTopology(const Topology& topology, size_t model);

/// True when all workers run on the coordinator's host: the topology lists no node, or only one with a loopback address
/// (StaysOnHost).
bool OnThisHost(const Topology& topology);

/// True for "localhost" and for loopback addresses.
bool StaysOnHost(const std::string& host);

/// Checks the nodes, and the settings of launch and transport that several hosts need. ValidateTopology calls it.
/// Throws Error as ValidateTopology does.
void ValidateNodes(const Topology& topology, const std::string& where);

struct HostPort {
  std::string host;
  uint16_t port;
};
/// Parses HOST:PORT, such as "127.0.0.1:8000" or "[::1]:8000"; nullopt for any other form.
std::optional<HostPort> ParseHostPort(const std::string& text);

/// Parses a size such as "8GiB", "512MiB" or "1048576" into bytes; nullopt for any other form.
std::optional<int64_t> ParseBytes(const std::string& text);

}  // namespace quire

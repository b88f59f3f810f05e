// Turns a topology file and its overrides into a Topology. Each section of the schema has one reader.
#include <algorithm>
#include <map>

#include "comm/base/error.h"
#include "comm/base/parse_number.h"
#include "comm/base/plain_word.h"
#include "comm/base/share.h"
#include "comm/base/yaml_tree.h"
#include "comm/topology/topology.h"
#include "comm/topology/with_settings.h"

namespace quire {

namespace {

std::string PlaceOf(const YamlNode& node, const std::string& file) {
  return node.given_as.empty() ? fmt::format("{}:{}", file, node.line) : node.given_as;
}

/// A mapping whose keys are read one by one. A key that no reader has asked for is unknown, which is an error.
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
  template <ChosenByWord E>
  void Choose(const std::string& key, E& out) {
    const YamlNode* node = Take(key);
    if (node == nullptr) return;
    const std::string word = Scalar(*node, key);
    const auto value = Named<E>(word);
    if (!value)
      Refuse(*node, fmt::format("{} must be one of {}, not \"{}\"", key, fmt::join(NamesOf<E>(), ", "), word));
    out = *value;
  }
  void Integer(const std::string& key, int& out, int low, int high) {
    if (const YamlNode* node = Take(key)) out = IntegerOf(*node, key, low, high);
  }
  /// Reads an integer or "auto". "auto" sets is_auto and sets `out` to 0.
  void IntegerOrAuto(const std::string& key, int& out, bool& is_auto, int low, int high) {
    const YamlNode* node = Take(key);
    if (node == nullptr) return;
    is_auto = Scalar(*node, key) == "auto";
    out = is_auto ? 0 : IntegerOf(*node, key, low, high);
  }
  void Integer(const std::string& key, std::optional<int64_t>& out) {
    const YamlNode* node = Take(key);
    if (node == nullptr) return;
    out = ParseNumber<int64_t>(Scalar(*node, key));
    if (!out) Refuse(*node, key + " must be an integer of 64 bits");
  }
  void Integers(const std::string& key, std::vector<int>& out, int low, int high) {
    if (const YamlNode* node = Take(key)) Integers(*node, key, out, low, high);
  }
  void Integers(const YamlNode& node, const std::string& key, std::vector<int>& out, int low, int high) {
    for (const YamlNode& item : Sequence(node, key)) out.push_back(IntegerOf(item, key, low, high));
  }
  void Shares(const YamlNode& node, const std::string& key, std::vector<double>& out) {
    for (const YamlNode& item : Sequence(node, key)) {
      const auto value = ParseNumber<double>(Scalar(item, key));
      if (!value || !IsShare(*value)) Refuse(item, key + " must be numbers from 1e-6 to 1e6");
      out.push_back(*value);
    }
  }
  void Texts(const std::string& key, std::vector<std::string>& out) {
    if (const YamlNode* node = Take(key)) {
      for (const YamlNode& item : Sequence(*node, key)) out.push_back(Scalar(item, key));
    }
  }
  /// Reads one text into `main`. From a list, reads the first text into `main` and the following texts into `others`.
  /// Refuses a list that is empty or has an empty text.
  void Names(const std::string& key, std::string& main, std::vector<std::string>& others) {
    const YamlNode* node = Take(key);
    if (node == nullptr) return;
    const bool is_list = node->kind == YamlNode::Kind::kSequence;
    if (is_list && node->items.empty()) Refuse(*node, key + " must be a name or a list of names");
    others.clear();
    for (const YamlNode& item : is_list ? node->items : std::vector<YamlNode>{*node})
      others.push_back(Scalar(item, key));
    if (is_list && std::ranges::count(others, "") > 0) Refuse(*node, key + " has an empty name");
    main = others.front();
    others.erase(others.begin());
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
  void KeepAlive(const std::string& key, double& out) {
    const YamlNode* node = Take(key);
    if (node == nullptr) return;
    const auto value = ParseKeepAlive(Scalar(*node, key));
    if (!value) Refuse(*node, key + " must be a time such as 5m or 300 (seconds), 0 for at once, or -1 for never");
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
    Fail("{}: {}{}", PlaceOf(node, file_), name_.empty() ? "" : name_ + ": ", reason);
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

void ReadParallel(Section section, Topology::Parallel& parallel, bool& experts) {
  section.Integer("tensor", parallel.tensor, 1, 1024);
  section.Integer("pipeline", parallel.pipeline, 1, 1024);
  section.Integer("replicas", parallel.replicas, 1, 256);
  section.Integer("prefill_replicas", parallel.prefill_replicas, 0, 255);
  if (const YamlNode* shares = section.Take("shares"); shares != nullptr && shares->scalar != "auto") {
    section.Shares(*shares, "shares", parallel.shares);
  }
  if (const YamlNode* stages = section.Take("stages"); stages != nullptr && stages->scalar != "auto")
    section.Integers(*stages, "stages", parallel.stages, 1, 100'000);
  section.Flag("experts", experts);
  section.Done();
}

void ReadDisk(Section section, Topology::Cache::Disk& disk) {
  constexpr int64_t kLeastBytes = 16 << 20;
  section.Text("dir", disk.dir);
  section.Bytes("size", disk.max_bytes, kLeastBytes);
  section.Integer("days", disk.days, 1, 3650);
  section.Done();
}

void ReadCache(Section section, const std::string& file, Topology::Cache& cache, KvCacheDtype& dtype) {
  section.Integer("block_size", cache.block_size, 1, 256);
  section.Choose("dtype", dtype);
  section.Fraction("memory", cache.memory);
  section.Bytes("memory_bytes", cache.memory_bytes);
  section.Integer("num_blocks", cache.num_blocks, 1, INT32_MAX - 1);
  section.Bytes("host_swap", cache.host_swap_bytes);
  section.Flag("prefix_caching", cache.prefix_caching);
  section.Fraction("watermark", cache.watermark);
  if (const YamlNode* disk = section.Take("disk")) ReadDisk(Section(*disk, "cache.disk", file), cache.disk);
  section.Done();
}

void ReadScheduler(Section section, Topology::Scheduler& scheduler) {
  section.Integer("max_running", scheduler.max_running, 1, 65536);
  section.Integer("max_waiting", scheduler.max_waiting, 0, 1 << 20);
  section.IntegerOrAuto("max_step_tokens", scheduler.max_step_tokens, scheduler.auto_step_tokens, 1, 1 << 24);
  section.Integer("target_inter_token_ms", scheduler.target_inter_token_ms, 0, 60'000);
  section.Integer("max_model_len", scheduler.max_model_len, 1, 1 << 24);
  section.Choose("preemption", scheduler.preemption);
  section.Flag("plan_ahead", scheduler.plan_ahead);
  section.Done();
}

void ReadSpeculation(const YamlNode& node, Section section, Topology::Speculation& speculation) {
  const bool said = std::ranges::find(node.entries, "method", &YamlEntry::key) != node.entries.end();
  if (!said) section.Refuse(node, "method is missing: prediction, ngram, suffix, draft_model, mtp, auto, or off");
  section.Choose("method", speculation.method);
  section.Text("model", speculation.draft_model);
  section.Integer("num_speculative_tokens", speculation.num_tokens, 1, 64);
  section.Integer("prompt_lookup_min", speculation.lookup_min, 1, 64);
  section.Integer("prompt_lookup_max", speculation.lookup_max, 1, 64);
  section.Integer("disable_by_batch_size", speculation.disable_by_batch_size, 1, 65536);
  section.Done();
  const bool by_model = speculation.method == SpeculationMethod::kDraftModel;
  if (by_model && speculation.draft_model.empty())
    section.Refuse(node, "model is missing: method draft_model needs the files of the draft model, or ORG/NAME");
  if (!by_model && !speculation.draft_model.empty())
    section.Refuse(node, fmt::format("model is for method draft_model, not for {}", NameOf(speculation.method)));
  if (speculation.lookup_max < speculation.lookup_min)
    section.Refuse(node, fmt::format("prompt_lookup_max {} is less than prompt_lookup_min {}", speculation.lookup_max,
                                     speculation.lookup_min));
}

void ReadKvEvents(const YamlNode& node, Section section, Topology::KvEvents& events) {
  std::string publisher = "zmq";
  events.enabled = true;
  section.Flag("enable_kv_cache_events", events.enabled);
  section.Text("publisher", publisher);
  section.Text("endpoint", events.endpoint);
  bool bind = false;
  section.Flag("bind", bind);
  if (node.Find("bind") != nullptr) events.bind = bind;
  section.Text("replay_endpoint", events.replay_endpoint);
  section.Integer("buffer_steps", events.buffer_steps, 0, 1 << 20);
  section.Integer("hwm", events.hwm, 1, 1 << 20);
  section.Integer("max_queue_size", events.max_queue_size, 1, 1 << 20);
  section.Text("topic", events.topic);
  section.Flag("allow_unauthenticated", events.allow_unauthenticated);
  section.Done();
  if (publisher != "zmq" && publisher != "null")
    section.Refuse(node, fmt::format("publisher must be zmq or null, not \"{}\"", publisher));
  events.enabled = events.enabled && publisher == "zmq";
}

void ReadAdapters(const YamlNode& list, const std::string& file, std::vector<AdapterSetting>& adapters) {
  if (list.kind != YamlNode::Kind::kSequence) Fail("{}: adapters must be a list", PlaceOf(list, file));
  adapters.clear();
  for (const YamlNode& item : list.items) {
    Section section(item, "adapters", file);
    AdapterSetting adapter;
    section.Text("name", adapter.name);
    section.Text("path", adapter.path);
    section.Done();
    if (adapter.name.empty() || adapter.path.empty()) section.Refuse(item, "every adapter needs a name and a path");
    adapters.push_back(std::move(adapter));
  }
}

void ReadLora(Section section, Topology::Lora& lora) {
  section.Texts("dirs", lora.dirs);
  section.Integer("max_loaded", lora.max_loaded, 1, 1024);
  section.Integer("max_rank", lora.max_rank, 1, 4096);
  section.Bytes("memory", lora.memory_bytes, 1 << 20);
  section.Done();
}

void ReadNodes(const YamlNode& list, const std::string& file, std::vector<Topology::Node>& nodes) {
  if (list.kind != YamlNode::Kind::kSequence) Fail("{}: nodes must be a list", PlaceOf(list, file));
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

void ReadModelKeys(Section& section, Topology::Model& model) {
  section.Text("path", model.path);
  section.Names("name", model.name, model.aliases);
  section.Choose("load_format", model.load_format);
  section.Text("checksums", model.checksums);
  section.Text("chat_template", model.chat_template);
  section.Text("tool_call_parser", model.tool_call_parser);
  section.Text("reasoning_parser", model.reasoning_parser);
  section.Choose("pooling", model.pooling);
  section.Choose("scoring", model.scoring);
  section.Choose("generation_config", model.generation_config);
}

/// Reads the settings that each model of a list may set for itself.
void ReadModelSettings(Section& section, const std::string& file, ModelSettings& t) {
  if (const YamlNode* node = section.Take("adapters")) ReadAdapters(*node, file, t.model.adapters);
  if (const YamlNode* node = section.Take("lora")) ReadLora(Section(*node, "lora", file), t.lora);
  section.Choose("backend", t.compute.backend);
  section.Choose("dtype", t.compute.dtype);
  section.Choose("quantization", t.compute.quantization);
  section.Choose("activations", t.compute.activations);
  section.Flag("exact", t.exact);
  section.Choose("attention_backend", t.compute.attention_backend);
  if (const YamlNode* node = section.Take("parallel"))
    ReadParallel(Section(*node, "parallel", file), t.parallel, t.compute.expert_parallel);
  if (const YamlNode* node = section.Take("nodes")) ReadNodes(*node, file, t.nodes);
  if (const YamlNode* node = section.Take("cache"))
    ReadCache(Section(*node, "cache", file), file, t.cache, t.compute.kv_cache_dtype);
  if (const YamlNode* node = section.Take("scheduler")) ReadScheduler(Section(*node, "scheduler", file), t.scheduler);
  if (const YamlNode* node = section.Take("speculation"))
    ReadSpeculation(*node, Section(*node, "speculation", file), t.speculation);
  section.Integer("threads_per_worker", t.threads_per_worker, 1, 1024);
  section.Choose("load", t.life.load);
  section.KeepAlive("keep_alive", t.life.keep_alive);
}

/// Reads the list of models. Each model starts with the document's settings, and replaces the settings that its entry
/// names.
void ReadModels(const YamlNode& list, const std::string& file, Topology& t) {
  if (list.kind != YamlNode::Kind::kSequence || list.items.empty())
    Fail("{}: models must be a list with a model or more", PlaceOf(list, file));
  if (!t.model.path.empty() || !t.model.name.empty() || !t.model.adapters.empty())
    Fail(
        "{}: a list of models has every model's path, name and adapters; leave model.path, model.name and adapters "
        "out (--model, --served-model-name, --lora-modules)",
        PlaceOf(list, file));
  t.models.clear();
  for (const YamlNode& item : list.items) {
    Section section(item, "models", file);
    ModelSettings one = t;
    ReadModelKeys(section, one.model);
    ReadModelSettings(section, file, one);
    section.Done();
    if (one.model.path.empty()) section.Refuse(item, "every model needs a path");
    t.models.push_back(std::move(one));
  }
  static_cast<ModelSettings&>(t) = t.models.front();
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
  section.Integer("drain_seconds", limits.drain_seconds, 0, kLongestSeconds);
  section.Done();
}

void ReadTls(Section section, Topology::Listener& listener) {
  section.Text("certificate", listener.certificate);
  section.Text("key", listener.key);
  section.Done();
}

void ReadLogs(Section section, Topology::Logs& logs) {
  section.Choose("level", logs.level);
  section.Choose("format", logs.format);
  section.Choose("access", logs.access);
  section.Text("access_file", logs.access_file);
  section.Text("audit_file", logs.audit_file);
  section.Done();
}

void ReadKeyLimits(const YamlNode& node, const std::string& file, std::map<std::string, Topology::KeyLimits>& limits) {
  if (node.kind != YamlNode::Kind::kMapping) Fail("{}: server.key_limits: expected a mapping", PlaceOf(node, file));
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
  section.Flag("ignore_unknown_fields", t.server.ignore_unknown_fields);
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
  section.Choose("private_network", transport.private_network);
  if (const YamlNode* ports = section.Take("mpi_ports")) {
    transport.mpi_ports.clear();
    section.Integers(*ports, "mpi_ports", transport.mpi_ports, 1024, 65535);
  }
  section.Done();
}

void ReadLaunch(Section section, Topology::Launch& launch) {
  section.Choose("method", launch.method);
  section.Text("agent", launch.agent);
  section.Text("worker", launch.worker);
  section.Texts("args", launch.args);
  section.Done();
}

void SayGivenAs(const std::string& given_as, YamlNode& node) {
  node.given_as = given_as;
  for (YamlNode& item : node.items) SayGivenAs(given_as, item);
  for (YamlEntry& entry : node.entries) SayGivenAs(given_as, entry.node);
}

/// Puts the value of an override at its key in the document, in place of the value there.
void Lay(const SettingOverride& setting, YamlNode& document) {
  YamlNode* node = &document;
  for (size_t begin = 0; begin <= setting.key.size();) {
    const size_t end = std::min(setting.key.find('.', begin), setting.key.size());
    const std::string name = setting.key.substr(begin, end - begin);
    if (name.empty()) Fail("{}: \"{}\" is no key of a topology file", setting.given_as, setting.key);
    if (node->kind != YamlNode::Kind::kMapping)
      Fail("{}: {} has no keys", setting.given_as, setting.key.substr(0, begin - 1));
    const auto found = std::ranges::find(node->entries, name, &YamlEntry::key);
    if (found != node->entries.end()) {
      node = &found->node;
    } else {
      node = &node->entries.emplace_back(YamlEntry{name, {}}).node;
      node->kind = YamlNode::Kind::kMapping;
      node->given_as = setting.given_as;
    }
    begin = end + 1;
  }
  *node = setting.value;
  SayGivenAs(setting.given_as, *node);
}

/// Throws Error when two overrides set the same key, or when one sets a key within the other's, because neither takes
/// precedence.
void CheckSaidOnce(const std::vector<SettingOverride>& settings) {
  const auto holds = [](const std::string& outer, const std::string& inner) {
    return inner == outer || inner.starts_with(outer + ".");
  };
  for (size_t i = 0; i < settings.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const SettingOverride &a = settings[j], &b = settings[i];
      if (holds(a.key, b.key) || holds(b.key, a.key))
        Fail("{} and {} both set {}", a.given_as, b.given_as, std::max(a.key, b.key));
    }
  }
}

/// Reads the document into `t`. Settings that the document does not name do not change.
void ReadDocument(const YamlNode& document, const std::string& file, Topology& t) {
  Section root(document, "", file);
  if (const YamlNode* node = root.Take("model")) {
    Section section(*node, "model", file);
    ReadModelKeys(section, t.model);
    section.Done();
  }
  ReadModelSettings(root, file, t);
  if (const YamlNode* node = root.Take("models")) ReadModels(*node, file, t);
  root.Bytes("models_memory", t.models_memory_bytes);
  if (const YamlNode* node = root.Take("server")) ReadServer(Section(*node, "server", file), file, t);
  if (const YamlNode* node = root.Take("admin")) ReadAdmin(Section(*node, "admin", file), file, t.admin);
  if (const YamlNode* node = root.Take("logs")) ReadLogs(Section(*node, "logs", file), t.logs);
  if (const YamlNode* node = root.Take("metrics")) {
    Section section(*node, "metrics", file);
    section.Text("listen", t.metrics.listen);
    section.Flag("on_data_port", t.metrics.on_data_port);
    section.Done();
  }
  if (const YamlNode* node = root.Take("traces")) {
    Section section(*node, "traces", file);
    section.Text("endpoint", t.traces.endpoint);
    section.Done();
  }
  if (const YamlNode* node = root.Take("kv_events"))
    ReadKvEvents(*node, Section(*node, "kv_events", file), t.kv_events);
  if (const YamlNode* node = root.Take("batches")) {
    Section section(*node, "batches", file);
    section.Text("dir", t.batches.dir);
    section.Bytes("max_bytes", t.batches.max_bytes);
    section.Integer("concurrency", t.batches.concurrency, 1, 1024);
    section.Done();
  }
  if (const YamlNode* node = root.Take("transport")) ReadTransport(Section(*node, "transport", file), t.transport);
  if (const YamlNode* node = root.Take("launch")) ReadLaunch(Section(*node, "launch", file), t.launch);
  root.Text("journal", t.journal);
  root.Integer("seed", t.seed);
  root.Done();
}

}  // namespace

Topology TopologyFromYaml(const std::string& text, const std::string& file,
                          const std::vector<SettingOverride>& overrides) {
  YamlNode document = ParseYaml(text, file);
  CheckSaidOnce(overrides);
  for (const SettingOverride& setting : overrides) Lay(setting, document);
  Topology t;
  ReadDocument(document, file, t);
  return t;
}

Topology WithSettings(Topology base, const std::vector<SettingOverride>& changes) {
  YamlNode document;
  document.kind = YamlNode::Kind::kMapping;
  CheckSaidOnce(changes);
  for (const SettingOverride& setting : changes) Lay(setting, document);
  ReadDocument(document, "", base);
  return base;
}

}  // namespace quire

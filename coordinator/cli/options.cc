#include "coordinator/cli/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/base/yaml_tree.h"
#include "comm/model/formats/mapped_file.h"
#include "coordinator/cli/exposure.h"
#include "coordinator/cli/model_source.h"
#include "coordinator/cluster/launch/backend_settings.h"
#include "coordinator/text/answers/answer_format.h"

namespace quire {

namespace {

void CheckSwap(const Topology& t, const std::string& where) {
  if (t.scheduler.preemption == "swap" && t.cache.host_swap_bytes == 0) {
    Fail("{}: preemption by swap needs host memory; give --swap-space GiB (cache.host_swap)", where);
  }
  if (t.parallel.prefill_replicas > 0 && t.cache.host_swap_bytes == 0) {
    Fail("{}: prefill_replicas hand over KV blocks through host memory; give --swap-space GiB (cache.host_swap)",
         where);
  }
}

/// The names that only the coordinator knows.
void CheckParsers(const Topology::Model& model, const std::string& where) {
  if (model.tool_call_parser != "auto" && !ToolFormatNamed(model.tool_call_parser))
    Fail("{}: --tool-call-parser {} is not known; auto, {} are", where, model.tool_call_parser, ToolFormatNames());
  if (model.reasoning_parser != "auto" && !ReasoningFormatNamed(model.reasoning_parser))
    Fail("{}: --reasoning-parser {} is not known; auto, {} are", where, model.reasoning_parser, ReasoningFormatNames());
}

std::string WithHostOrPort(const std::string& listen, const std::string& host, const std::optional<int>& port) {
  if (host.empty() && !port) return listen;  // checked by ValidateTopology
  const auto parsed = ParseHostPort(listen);
  const std::string h = !host.empty() ? host : parsed ? parsed->host : "127.0.0.1";
  const int p = port ? *port : parsed ? parsed->port : 0;
  return h.find(':') != std::string::npos ? fmt::format("[{}]:{}", h, p) : fmt::format("{}:{}", h, p);
}

/// A plain number counts in `unit` ("GiB", or "" for bytes).
int64_t BytesFlag(const std::string& text, const char* flag, const char* unit) {
  const bool plain = text.find_first_not_of("0123456789.") == std::string::npos;
  const auto bytes = ParseBytes(plain ? text + unit : text);
  if (!bytes) Fail("{}: \"{}\" is no size; give for example 2GiB", flag, text);
  return *bytes;
}

template <class T>
void Override(const std::optional<T>& flag, T& setting) {
  if (flag) setting = *flag;
}
void Override(const std::string& flag, std::string& setting) {
  if (!flag.empty()) setting = flag;
}

/// Words with commas between them, or a JSON list, which is how vLLM takes them.
std::vector<std::string> WordsOf(const std::string& text, const char* flag) {
  std::vector<std::string> words;
  if (text.starts_with('[')) {
    for (const Json& item : ParseJson(text, flag)) {
      if (!item.is_string()) Fail("{}: {} must be a list of strings", flag, text);
      words.push_back(item.get<std::string>());
    }
    return words;
  }
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

void ApplyFlags(const ServeFlags& flags, Topology& t) {
  Override(flags.model, t.model.path);
  Override(flags.served_model_name, t.model.name);
  Override(flags.verify_checksum, t.model.checksums);
  Override(flags.tool_call_parser, t.model.tool_call_parser);
  Override(flags.reasoning_parser, t.model.reasoning_parser);
  Override(flags.backend, t.backend);
  Override(flags.dtype, t.dtype);
  t.quantization = flags.quantization;
  t.activations = flags.activations;
  Override(flags.tensor_parallel_size, t.parallel.tensor);
  Override(flags.replicas, t.parallel.replicas);
  Override(flags.threads_per_worker, t.threads_per_worker);
  t.seed = flags.seed;
  t.journal = flags.journal;
  t.server.listen = WithHostOrPort(t.server.listen, flags.host, flags.port);
  t.admin.listen = WithHostOrPort(t.admin.listen, "", flags.admin_port);
  Override(flags.api_key_file, t.server.key_file);
  Override(flags.admin_token_file, t.admin.key_file);
  Override(flags.ssl_certfile, t.server.certificate);
  Override(flags.ssl_keyfile, t.server.key);
  Override(flags.admin_ssl_certfile, t.admin.certificate);
  Override(flags.admin_ssl_keyfile, t.admin.key);
  if (!flags.allowed_origins.empty()) t.server.allowed_origins = WordsOf(flags.allowed_origins, "--allowed-origins");
  if (!flags.allowed_hosts.empty()) t.server.allowed_hosts = WordsOf(flags.allowed_hosts, "--allowed-hosts");
  Override(flags.chat_page, t.server.chat_page);
  Override(flags.access_log, t.logs.access);
  Override(flags.access_log_file, t.logs.access_file);
  Override(flags.audit_log_file, t.logs.audit_file);
  Override(flags.metrics_listen, t.metrics.listen);
  Override(flags.max_model_len, t.scheduler.max_model_len);
  Override(flags.max_num_seqs, t.scheduler.max_running);
  Override(flags.max_num_queued_reqs, t.scheduler.max_waiting);
  Override(flags.max_num_batched_tokens, t.scheduler.max_step_tokens);
  Override(flags.preemption_mode, t.scheduler.preemption);
  Override(flags.block_size, t.cache.block_size);
  Override(flags.num_kv_blocks, t.cache.num_blocks);
  Override(flags.memory_utilization, t.cache.memory);
  Override(flags.kv_cache_dtype, t.cache.dtype);
  Override(flags.prefix_caching, t.cache.prefix_caching);
  if (!flags.kv_cache_memory.empty())
    t.cache.memory_bytes = BytesFlag(flags.kv_cache_memory, "--kv-cache-memory-bytes", "");
  if (!flags.swap_space.empty()) t.cache.host_swap_bytes = BytesFlag(flags.swap_space, "--swap-space", "GiB");
}

void TakePositional(const std::string& given, ServeFlags& flags) {
  const std::string extension = std::filesystem::path(given).extension();
  if (extension == ".yaml" || extension == ".yml") {
    flags.topology_file = given;
  } else if (flags.model.empty()) {
    flags.model = given;
  } else {
    throw CLI::ValidationError(fmt::format("two models are named: {} and --model {}", given, flags.model));
  }
}

/// The name that clients use when none is given: ORG/NAME as it was typed, else that of the file or folder.
std::string DefaultModelName(const std::string& given, const std::string& found) {
  if (given != found) return given;
  std::filesystem::path path = std::filesystem::path(found).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return path.extension() == ".gguf" ? path.stem() : path.filename();
}

/// Who may come in, how, and what is written down of it.
void AddDoorFlags(CLI::App& app, ServeFlags& f) {
  app.add_option("--host", f.host, "Address to serve on (127.0.0.1)");
  app.add_option("--port", f.port, "Port to serve on (8000)")->check(CLI::Range(0, 65535));
  app.add_option("--admin-port", f.admin_port, "Admin port on loopback (8001)")->check(CLI::Range(0, 65535));
  app.add_option("--api-key-file", f.api_key_file, "Keys that clients must present (quire keygen --api NAME)");
  app.add_option("--admin-token-file", f.admin_token_file, "Token of the admin port (quire keygen --admin)");
  app.add_option("--ssl-certfile", f.ssl_certfile, "Certificate chain (PEM): serve HTTPS; needs --ssl-keyfile");
  app.add_option("--ssl-keyfile", f.ssl_keyfile, "Its private key (PEM)");
  app.add_option("--admin-ssl-certfile", f.admin_ssl_certfile, "The same for the admin port");
  app.add_option("--admin-ssl-keyfile", f.admin_ssl_keyfile, "Its private key (PEM)");
  app.add_option("--allowed-origins", f.allowed_origins,
                 "Origins of web pages that may ask, with commas (none); * with API keys: all");
  app.add_option("--allowed-hosts", f.allowed_hosts, "Host names that are answered beside localhost, with commas");
  app.add_flag_callback(
      "--no-chat-page", [&f] { f.chat_page = false; }, "Serve no chat page at / and /chat");
  app.add_option("--access-log", f.access_log, "A line for each request: off (the default), text or json")
      ->check(CLI::IsMember({"off", "text", "json"}));
  app.add_option("--access-log-file", f.access_log_file, "File of the access log (standard error)");
  app.add_option("--metrics-listen", f.metrics_listen,
                 "ADDRESS:PORT that serves /metrics alone, without a key (it is on the admin port)");
  app.add_option("--audit-log-file", f.audit_log_file, "File of what operators did (standard error)");
}

}  // namespace

void AddServeFlags(CLI::App& app, ServeFlags& f) {
  const auto positive = CLI::Range(1, 1 << 24);
  app.add_option("--model", f.model, "HF directory, GGUF file, or ORG/NAME in the Hugging Face cache");
  // After --model: the parser calls back in this order.
  app.add_option_function<std::string>(
      "model_or_topology", [&f](const std::string& given) { TakePositional(given, f); },
      "What --model takes, or a topology file (.yaml)");
  app.add_option("--tensor-parallel-size", f.tensor_parallel_size, "Workers that share the model (also -tp)")
      ->check(CLI::Range(1, 1024));
  app.add_option("--data-parallel-size", f.replicas, "Replicas: groups of workers that each have the whole model")
      ->check(CLI::Range(1, 256));
  app.add_option("--backend", f.backend, "cpu, cuda or auto")->check(CLI::IsMember({"cpu", "cuda", "auto"}));
  app.add_option("--threads-per-worker", f.threads_per_worker, "Compute threads of each worker")
      ->check(CLI::Range(1, 1024));
  AddDoorFlags(app, f);
  app.add_option("--served-model-name", f.served_model_name, "Name that clients use");
  app.add_option("--tool-call-parser", f.tool_call_parser,
                 "How the model writes calls of tools: auto (its template says it), " + ToolFormatNames());
  app.add_option("--reasoning-parser", f.reasoning_parser,
                 "How it sets thoughts apart: auto, " + ReasoningFormatNames());
  app.add_option("--max-model-len", f.max_model_len, "Most tokens of a sequence, prompt and answer")->check(positive);
  app.add_option("--max-num-seqs", f.max_num_seqs, "Most sequences that run at once (256)")
      ->check(CLI::Range(1, 65536));
  app.add_option("--max-num-queued-reqs", f.max_num_queued_reqs, "Most sequences that wait to run (1024)")
      ->check(CLI::Range(0, 1 << 20));
  app.add_option("--max-num-batched-tokens", f.max_num_batched_tokens,
                 "Most tokens computed in a step (512; 2048 on GPUs)")
      ->check(positive);
  app.add_option("--block-size", f.block_size, "Tokens of a KV block (16)")->check(CLI::Range(1, 256));
  app.add_option("--num-kv-blocks", f.num_kv_blocks, "KV blocks, instead of sizing them from memory")
      ->check(CLI::Range(1, INT32_MAX - 1));
  app.add_option("--kv-cache-memory-bytes", f.kv_cache_memory, "KV memory of each worker, for example 2GiB");
  app.add_option("--gpu-memory-utilization", f.memory_utilization, "Share of the free memory for KV blocks (0.90)")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--swap-space", f.swap_space, "Host memory for swapped blocks, GiB");
  app.add_option("--kv-cache-dtype", f.kv_cache_dtype, "auto; fp8 on GPUs; float32, float16, int8 on the CPU")
      ->check(CLI::IsMember({"auto", "fp8", "float32", "float16", "int8"}));
  app.add_option("--dtype", f.dtype, "auto, float32, bfloat16 or float16")
      ->check(CLI::IsMember({"auto", "float32", "bfloat16", "float16"}));
  app.add_option("--quantization", f.quantization,
                 "of plain weights as they are loaded, on the CPU: none, int8 or int4")
      ->check(CLI::IsMember({"none", "int8", "int4"}));
  app.add_option("--activations", f.activations,
                 "what meets quantised weights, on the CPU: int16, or int8 where that is faster")
      ->check(CLI::IsMember({"int16", "int8"}));
  app.add_flag_callback(
      "--enable-prefix-caching", [&f] { f.prefix_caching = true; }, "Reuse blocks of shared prefixes (the default)");
  app.add_flag_callback(
      "--no-enable-prefix-caching", [&f] { f.prefix_caching = false; }, "Compute every prompt whole");
  app.add_option("--preemption-mode", f.preemption_mode, "auto, recompute or swap")
      ->check(CLI::IsMember({"auto", "recompute", "swap"}));
  app.add_option("--seed", f.seed, "Seed of requests that bring none (random without it)");
  app.add_option("--journal", f.journal, "Directory to keep the step journal in (it holds prompts and answers)");
  app.add_option("--verify-checksum", f.verify_checksum,
                 "List of sha256sum to compare the model's files with before they are read");
  app.add_option("--log-level", f.log_level, "trace, debug, info, warn, error")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error"}));
}

Topology TopologyFromFlags(const ServeFlags& flags) {
  Topology t;
  std::string where = "command line";
  if (!flags.topology_file.empty()) {
    t = TopologyFromYaml(ReadTextFile(flags.topology_file, kMaxYamlBytes), flags.topology_file);
    where = flags.topology_file;
  }
  ApplyFlags(flags, t);
  ValidateTopology(t, where);
  if (t.backend != "auto") CheckBackendSettings(t, t.backend, where + ": --backend " + t.backend);
  CheckSwap(t, where);
  CheckParsers(t.model, where);
  CheckExposure(t, where);
  const std::string given = t.model.path;
  t.model.path = FindModel(given);
  if (t.model.name.empty()) t.model.name = DefaultModelName(given, t.model.path);
  return t;
}

}  // namespace quire

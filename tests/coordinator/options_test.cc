#include "coordinator/cli/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "comm/base/error.h"
#include "tests/support/error_of.h"

namespace quire {
namespace {

/// Returns the settings that these command-line arguments give, before validation.
Topology Typed(std::vector<std::string> arguments) {
  CLI::App app;
  ServeFlags flags;
  AddServeFlags(app, flags);
  std::ranges::reverse(arguments);  // CLI11 expects the arguments in reverse order
  app.parse(arguments);
  return SettingsFromFlags(flags);
}

Topology Written(const std::string& yaml) { return TopologyFromYaml(yaml, "t.yaml"); }

std::string ErrorOf(const std::vector<std::string>& arguments) {
  return ErrorThrownBy([&] { Typed(arguments); });
}

/// Turns key "a.b" and value "1" into YAML "{a: {b: 1}}".
std::string Nested(const std::string& key, const std::string& value) {
  const size_t dot = key.find('.');
  return "{" + key.substr(0, dot) + ": " + (dot == std::string::npos ? value : Nested(key.substr(dot + 1), value)) +
         "}";
}

/// Returns the keys of settings files in `section` ("": all keys), or `section` itself if it is a key with a value. The
/// keys come from the reader's error about an unknown key, which lists the known keys.
std::vector<std::string> KeysUnder(const std::string& section) {
  const std::string begin = section.empty() ? "" : section + ".";
  const std::string said = ErrorOf({"--set", begin + "no_such_key=1"});
  const size_t list = said.find("; known: ");
  if (list == std::string::npos) return {section};  // this key takes a value and has no keys of its own
  std::vector<std::string> keys;
  for (const std::string& name : CLI::detail::split(said.substr(list + 9), ',')) {
    for (std::string& key : KeysUnder(begin + CLI::detail::trim_copy(name))) keys.push_back(std::move(key));
  }
  return keys;
}

// This map has a value for each key. The value differs from the key's default.
const std::map<std::string, std::string> kValues = {
    {"model.path", "/m"},
    {"model.name", "x"},
    {"model.load_format", "dummy"},
    {"model.checksums", "SHA256SUMS"},
    {"model.chat_template", "chat.jinja"},
    {"model.tool_call_parser", "hermes"},
    {"model.reasoning_parser", "qwen3"},
    {"model.pooling", "mean"},
    {"model.scoring", "yes-no"},
    {"model.generation_config", "none"},
    {"models", "[{name: a, path: /m}]"},
    {"models_memory", "1GiB"},
    {"load", "request"},
    {"keep_alive", "5m"},
    {"adapters", "[{name: a, path: /a}, {name: b, path: /b}]"},
    {"lora.dirs", "[/l]"},
    {"lora.max_loaded", "3"},
    {"lora.max_rank", "32"},
    {"lora.memory", "2GiB"},
    {"backend", "cpu"},
    {"dtype", "float16"},
    {"quantization", "int4"},
    {"activations", "int8"},
    {"exact", "true"},
    {"attention_backend", "v2"},
    {"parallel.tensor", "2"},
    {"parallel.pipeline", "2"},
    {"parallel.stages", "[7, 5]"},
    {"parallel.replicas", "3"},
    {"parallel.prefill_replicas", "1"},
    {"parallel.shares", "[2, 1.5]"},
    {"parallel.experts", "true"},
    {"nodes", "[{host: a, devices: [0, 1], interface: eth0}, {host: b, slots: 2, spare: true}]"},
    {"cache.block_size", "32"},
    {"cache.dtype", "int8"},
    {"cache.memory", "0.5"},
    {"cache.memory_bytes", "2GiB"},
    {"cache.num_blocks", "77"},
    {"cache.host_swap", "1GiB"},
    {"cache.prefix_caching", "false"},
    {"cache.watermark", "0.25"},
    {"cache.disk.dir", "/d"},
    {"cache.disk.size", "2GiB"},
    {"cache.disk.days", "7"},
    {"scheduler.max_running", "8"},
    {"scheduler.max_waiting", "9"},
    {"scheduler.max_step_tokens", "64"},
    {"scheduler.target_inter_token_ms", "50"},
    {"scheduler.max_model_len", "100"},
    {"scheduler.preemption", "swap"},
    {"scheduler.plan_ahead", "false"},
    {"speculation", "{method: ngram, num_speculative_tokens: 5}"},
    {"server.listen", "\"0.0.0.0:9000\""},
    {"server.api_keys", "api.keys"},
    {"server.allow_unauthenticated", "true"},
    {"server.allowed_origins", "[\"https://a.example\", \"https://b.example\"]"},
    {"server.allowed_hosts", "[a.example, b.example]"},
    {"server.chat_page", "false"},
    {"server.ignore_unknown_fields", "true"},
    {"server.tls.certificate", "c.pem"},
    {"server.tls.key", "k.pem"},
    {"server.limits.head_seconds", "1"},
    {"server.limits.body_seconds", "2"},
    {"server.limits.body_bytes_per_second", "3"},
    {"server.limits.idle_seconds", "4"},
    {"server.limits.write_seconds", "5"},
    {"server.limits.write_bytes_per_second", "6"},
    {"server.limits.connections", "7"},
    {"server.limits.connections_per_address", "8"},
    {"server.limits.memory_bytes", "64MiB"},
    {"server.limits.memory_bytes_per_client", "40MiB"},
    {"server.limits.queue_seconds", "9"},
    {"server.limits.request_seconds", "10"},
    {"server.limits.drain_seconds", "11"},
    {"server.key_limits", "{default: {max_running_seqs: 1}, a.b@c: {max_blocks: 7}}"},
    {"admin.listen", "\"127.0.0.1:9001\""},
    {"admin.token", "admin.token"},
    {"admin.tls.certificate", "c2.pem"},
    {"admin.tls.key", "k2.pem"},
    {"logs.level", "debug"},
    {"logs.format", "json"},
    {"logs.access", "json"},
    {"logs.access_file", "a.log"},
    {"logs.audit_file", "b.log"},
    {"metrics.listen", "\"10.0.0.1:9100\""},
    {"metrics.on_data_port", "true"},
    {"kv_events.enable_kv_cache_events", "true"},
    {"kv_events.publisher", "zmq"},
    {"kv_events.endpoint", "\"tcp://router:5557\""},
    {"kv_events.bind", "true"},
    {"kv_events.replay_endpoint", "\"ipc:///run/replays\""},
    {"kv_events.buffer_steps", "3"},
    {"kv_events.hwm", "4"},
    {"kv_events.max_queue_size", "5"},
    {"kv_events.topic", "kv"},
    {"kv_events.allow_unauthenticated", "true"},
    {"traces.endpoint", "\"http://10.0.0.1:4318/v1/traces\""},
    {"transport.bind", "10.0.0.1"},
    {"transport.ports", "[5570, 5571]"},
    {"transport.keys", "keys"},
    {"transport.insecure", "true"},
    {"transport.private_network", "off"},
    {"transport.mpi_ports", "[47000, 47031]"},
    {"launch.method", "external"},
    {"launch.agent", "rsh"},
    {"launch.worker", "/opt/quire-worker"},
    {"launch.args", "[-x, A]"},
    {"threads_per_worker", "3"},
    {"journal", "/j"},
    {"batches.dir", "/b"},
    {"batches.max_bytes", "1GiB"},
    {"batches.concurrency", "3"},
    {"seed", "-5"},
};

TEST(OptionsTest, SetFlag_SetsEveryKeyOfASettingsFile) {
  std::vector<std::string> known;
  for (const auto& [key, value] : kValues) known.push_back(key);
  ASSERT_THAT(KeysUnder(""), testing::UnorderedElementsAreArray(known));
  for (const auto& [key, value] : kValues) {
    const Topology typed = Typed({"--set", key + "=" + value});
    EXPECT_EQ(typed, Written(Nested(key, value))) << key;
    EXPECT_NE(typed, Topology()) << key << " is read and goes nowhere";
  }
}

struct FlagInAFile {
  std::vector<std::string> typed;  // the flag and its value
  std::string written;
};

const FlagInAFile kFlagsInFiles[] = {
    {{"--model", "/m"}, "model: {path: /m}"},
    {{"model_or_topology", "/m"}, "model: {path: /m}"},
    {{"--model", "a=/m"}, "models: [{name: a, path: /m}]"},
    {{"--model", "a=/m", "--model", "b=/n=o"}, "models: [{name: a, path: /m}, {name: b, path: /n=o}]"},
    {{"--served-model-name", "x"}, "model: {name: x}"},
    {{"--served-model-name", "[\"x\", \"y\"]"}, "model: {name: [x, y]}"},
    {{"--load-format", "dummy"}, "model: {load_format: dummy}"},
    {{"--load", "request"}, "load: request"},
    {{"--keep-alive", "1h30m"}, "keep_alive: 5400"},
    {{"--models-memory", "2GiB"}, "models_memory: 2GiB"},
    {{"--enable-expert-parallel"}, "parallel: {experts: true}"},
    {{"--verify-checksum", "sums"}, "model: {checksums: sums}"},
    {{"--chat-template", "chat.jinja"}, "model: {chat_template: chat.jinja}"},
    {{"--tool-call-parser", "hermes"}, "model: {tool_call_parser: hermes}"},
    {{"--reasoning-parser", "qwen3"}, "model: {reasoning_parser: qwen3}"},
    {{"--pooling", "cls"}, "model: {pooling: cls}"},
    {{"--scoring", "cosine"}, "model: {scoring: cosine}"},
    {{"--generation-config", "none"}, "model: {generation_config: none}"},
    {{"--lora-modules", "a=/x=y"}, "adapters: [{name: a, path: /x=y}]"},
    {{"--lora-modules", "{\"name\": \"a\", \"path\": \"/x\"}"}, "adapters: [{name: a, path: /x}]"},
    {{"--lora-modules", "[\"a=/x\", \"b=/y\"]"}, "adapters: [{name: a, path: /x}, {name: b, path: /y}]"},
    {{"--tensor-parallel-size", "2"}, "parallel: {tensor: 2}"},
    {{"--pipeline-parallel-size", "3"}, "parallel: {pipeline: 3}"},
    {{"--data-parallel-size", "3"}, "parallel: {replicas: 3}"},
    {{"--backend", "cuda"}, "backend: cuda"},
    {{"--dtype", "bfloat16"}, "dtype: bfloat16"},
    {{"--quantization", "int8"}, "quantization: int8"},
    {{"--activations", "int8"}, "activations: int8"},
    {{"--exact"}, "exact: true"},
    {{"--attention-backend", "v1"}, "attention_backend: v1"},
    {{"--threads-per-worker", "4"}, "threads_per_worker: 4"},
    {{"--host", "10.0.0.9"}, "server: {listen: \"10.0.0.9:8000\"}"},
    {{"--host", "::1", "--port", "0"}, "server: {listen: \"[::1]:0\"}"},
    {{"--port", "9000"}, "server: {listen: \"127.0.0.1:9000\"}"},
    {{"--admin-port", "9001"}, "admin: {listen: \"127.0.0.1:9001\"}"},
    {{"--api-key-file", "f"}, "server: {api_keys: f}"},
    {{"--admin-token-file", "f"}, "admin: {token: f}"},
    {{"--ssl-certfile", "f"}, "server: {tls: {certificate: f}}"},
    {{"--ssl-keyfile", "f"}, "server: {tls: {key: f}}"},
    {{"--admin-ssl-certfile", "f"}, "admin: {tls: {certificate: f}}"},
    {{"--admin-ssl-keyfile", "f"}, "admin: {tls: {key: f}}"},
    {{"--allowed-origins", "https://a.example,*"}, "server: {allowed_origins: [\"https://a.example\", \"*\"]}"},
    {{"--allowed-hosts", "[\"a.example\"]"}, "server: {allowed_hosts: [a.example]}"},
    {{"--no-chat-page"}, "server: {chat_page: false}"},
    {{"--ignore-unknown-fields"}, "server: {ignore_unknown_fields: true}"},
    {{"--access-log", "text"}, "logs: {access: text}"},
    {{"--access-log-file", "f"}, "logs: {access_file: f}"},
    {{"--audit-log-file", "f"}, "logs: {audit_file: f}"},
    {{"--log-level", "warn"}, "logs: {level: warn}"},
    {{"--log-format", "json"}, "logs: {format: json}"},
    {{"--metrics-listen", "10.0.0.1:9100"}, "metrics: {listen: \"10.0.0.1:9100\"}"},
    {{"--metrics-on-data-port"}, "metrics: {on_data_port: true}"},
    {{"--otlp-traces-endpoint", "http://c:4318"}, "traces: {endpoint: \"http://c:4318\"}"},
    {{"--max-model-len", "100"}, "scheduler: {max_model_len: 100}"},
    {{"--max-num-seqs", "8"}, "scheduler: {max_running: 8}"},
    {{"--max-num-queued-reqs", "0"}, "scheduler: {max_waiting: 0}"},
    {{"--max-num-batched-tokens", "4096"}, "scheduler: {max_step_tokens: 4096}"},
    {{"--max-num-batched-tokens", "auto"}, "scheduler: {max_step_tokens: auto}"},
    {{"--target-inter-token-latency", "50"}, "scheduler: {target_inter_token_ms: 50}"},
    {{"--speculative-config", R"({"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 4})"},
     "speculation: {method: ngram, num_speculative_tokens: 5, prompt_lookup_max: 4}"},
    {{"--speculative-config", R"({"method": "draft_model", "model": "/d", "num_speculative_tokens": 4})"},
     "speculation: {method: draft_model, model: /d, num_speculative_tokens: 4}"},
    {{"--speculative-config", R"({"method": "mtp", "num_speculative_tokens": 2})"},
     "speculation: {method: mtp, num_speculative_tokens: 2}"},
    {{"--speculative-config", R"({"method": "auto", "num_speculative_tokens": 3})"},
     "speculation: {method: auto, num_speculative_tokens: 3}"},
    {{"--kv-events-config",
      R"({"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": "ipc:///e", "hwm": 5})"},
     "kv_events: {endpoint: \"ipc:///e\", hwm: 5}"},
    {{"--kv-events-config", R"({"enable_kv_cache_events": false, "endpoint": "ipc:///e"})"},
     "kv_events: {publisher: \"null\", endpoint: \"ipc:///e\"}"},
    {{"--preemption-mode", "recompute"}, "scheduler: {preemption: recompute}"},
    {{"--block-size", "1"}, "cache: {block_size: 1}"},
    {{"--num-kv-blocks", "20"}, "cache: {num_blocks: 20}"},
    {{"--kv-cache-memory-bytes", "1048576"}, "cache: {memory_bytes: 1MiB}"},
    {{"--gpu-memory-utilization", "0.5"}, "cache: {memory: 0.5}"},
    {{"--swap-space", "2"}, "cache: {host_swap: 2GiB}"},
    {{"--swap-space", "3MiB"}, "cache: {host_swap: 3MiB}"},
    {{"--lora-dir", "/l,/m"}, "lora: {dirs: [/l, /m]}"},
    {{"--max-cpu-loras", "3"}, "lora: {max_loaded: 3}"},
    {{"--max-lora-rank", "32"}, "lora: {max_rank: 32}"},
    {{"--lora-memory", "2"}, "lora: {memory: 2GiB}"},
    {{"--kv-disk", "/d"}, "cache: {disk: {dir: /d}}"},
    {{"--kv-disk-size", "2"}, "cache: {disk: {size: 2GiB}}"},
    {{"--kv-disk-days", "7"}, "cache: {disk: {days: 7}}"},
    {{"--kv-cache-dtype", "fp8"}, "cache: {dtype: fp8}"},
    {{"--no-enable-prefix-caching"}, "cache: {prefix_caching: false}"},
    {{"--seed", "7"}, "seed: 7"},
    {{"--journal", "/j"}, "journal: /j"},
    {{"--batch-dir", "/b"}, "batches: {dir: /b}"},
    {{"--batch-max-bytes", "1GiB"}, "batches: {max_bytes: 1GiB}"},
    {{"--batch-concurrency", "3"}, "batches: {concurrency: 3}"},
};
// These flags have no entry in kFlagsInFiles. Other tests cover --set, --fetch, --enable-prefix-caching and
// --model-dir; --help is no setting.
const std::vector<std::string> kOtherFlags = {"--help", "--set", "--fetch", "--enable-prefix-caching", "--model-dir"};

TEST(OptionsTest, EveryFlag_SetsAKeyOfTheSettingsFile) {
  std::vector<std::string> tried = kOtherFlags, known;
  for (const auto& [typed, written] : kFlagsInFiles) {
    if (std::ranges::find(tried, typed[0]) == tried.end()) tried.push_back(typed[0]);
    const bool positional = typed[0] == "model_or_topology";
    const Topology topology = Typed(positional ? std::vector(typed.begin() + 1, typed.end()) : typed);
    EXPECT_EQ(topology, Written(written)) << typed[0];
    EXPECT_NE(topology, Topology()) << typed[0] << " changes nothing";
  }
  CLI::App app;
  ServeFlags flags;
  AddServeFlags(app, flags);
  for (const CLI::Option* option : app.get_options())
    known.push_back(option->get_positional() ? option->get_name(true) : "--" + option->get_lnames().front());
  EXPECT_THAT(tried, testing::UnorderedElementsAreArray(known));
}

TEST(OptionsTest, Flags_ReplaceTheirKeysOfTheSettingsFile_AndKeepTheOtherKeys) {
  const std::string file = std::filesystem::path(testing::TempDir()) / "options_test.yaml";
  std::ofstream(file) << "model: {path: /m}\ncache: {prefix_caching: false, block_size: 8, watermark: 0.5}\n"
                         "dtype: float16\nseed: 3\njournal: /j\nserver: {listen: \"[::1]:5000\"}\n";
  const Topology typed =
      Typed({file, "--enable-prefix-caching", "--block-size", "4", "--port", "6000", "--set", "cache.watermark=0"});
  EXPECT_EQ(typed, Written("{model: {path: /m}, cache: {block_size: 4, watermark: 0}, dtype: float16, seed: 3, "
                           "journal: /j, server: {listen: \"[::1]:6000\"}}"));
  EXPECT_EQ(Typed({file}).cache.block_size, 8);
}

TEST(OptionsTest, Errors_NameTheFlagAndTheReason) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"--backend", "rocm"}, "--backend: backend must be one of auto, cpu, cuda, not \"rocm\""},
      {{"--dtype", "float8"}, "--dtype: dtype must be one of auto, float32, bfloat16, float16"},
      {{"--kv-cache-dtype", "int4"}, "--kv-cache-dtype: cache: dtype must be one of"},
      {{"--quantization", "int2"}, "--quantization: quantization must be one of none, int8, int4, fp8"},
      {{"--load-format", "gguf"}, "--load-format: model: load_format must be one of auto, dummy"},
      {{"--activations", "int32"}, "--activations: activations must be one of int16, int8"},
      {{"--kv-events-config", "{\"publisher\": \"nats\"}"},
       "--kv-events-config: kv_events: publisher must be zmq or null, not \"nats\""},
      {{"--speculative-config", "{\"num_speculative_tokens\": 5}"},
       "--speculative-config: speculation: method is missing: prediction, ngram, suffix, draft_model, mtp, auto, or "
       "off"},
      {{"--speculative-config", "{\"method\": \"eagle3\"}"},
       "--speculative-config: speculation: method must be one of off, prediction, ngram, suffix, draft_model, mtp, "
       "auto, not \"eagle3\""},
      {{"--speculative-config", "{\"method\": \"ngram\", \"model\": \"/m\"}"},
       "--speculative-config: speculation: model is for method draft_model, not for ngram"},
      {{"--speculative-config", "{\"method\": \"draft_model\"}"},
       "--speculative-config: speculation: model is missing: method draft_model needs the files of the draft model, or "
       "ORG/NAME"},
      {{"--speculative-config", "{\"method\": \"ngram\", \"draft\": \"/m\"}"},
       "--speculative-config: speculation: unknown key \"draft\"; known: method, model, num_speculative_tokens"},
      {{"--speculative-config", "{\"method\": \"ngram\", \"prompt_lookup_min\": 9}"},
       "--speculative-config: speculation: prompt_lookup_max 8 is less than prompt_lookup_min 9"},
      {{"--preemption-mode", "Swap"}, "--preemption-mode: scheduler: preemption must be one of"},
      {{"--access-log", ""}, "--access-log: logs: access must be one of off, text, json, not \"\""},
      {{"--log-level", "loud"}, "--log-level: logs: level must be one of trace, debug, info, warn, error"},
      {{"--log-format", "xml"}, "--log-format: logs: format must be one of text, json, not \"xml\""},
      {{"--block-size", "257"}, "--block-size: cache: block_size must be an integer from 1 to 256"},
      {{"--max-num-seqs", "8x"}, "--max-num-seqs: scheduler: max_running must be an integer"},
      {{"--gpu-memory-utilization", "1.5"}, "--gpu-memory-utilization: cache: memory must be a number from 0 to 1"},
      {{"--swap-space", "much"}, "--swap-space: cache: host_swap must be a size"},
      {{"--seed", "99999999999999999999"}, "--seed: seed must be an integer of 64 bits"},
      {{"--allowed-origins", "[\"https://a.example\""}, "--allowed-origins"},
      {{"--set", "cache.blok_size=3"}, "--set cache.blok_size: cache: unknown key \"blok_size\"; known: block_size"},
      {{"--set", "chache.block_size=3"}, "--set chache.block_size: unknown key \"chache\""},
      {{"--set", "backend.kind=cpu"}, "--set backend.kind: backend must be a single value"},
      {{"--set", "cache"}, "--set cache: give KEY=VALUE"},
      {{"--set", "cache..memory=1"}, "\"cache..memory\" is no key"},
      {{"--set", "=1"}, "\"\" is no key"},
      {{"--set", "nodes=[{host: \"a;id\"}]"}, "--set nodes: nodes: host must be a host name"},
      {{"--set", "backend=*a"}, "--set backend:1:"},
      {{"--block-size", "8", "--set", "cache.block_size=8"}, "--block-size and --set cache.block_size both set"},
      {{"--set", "cache={memory: 0.5}", "--block-size", "8"}, "both set cache.block_size"},
      {{"--enable-prefix-caching", "--no-enable-prefix-caching"}, "both set cache.prefix_caching"},
  };
  for (const auto& [typed, reason] : cases) EXPECT_THAT(ErrorOf(typed), testing::HasSubstr(reason)) << typed[0];
  const std::string file = std::filesystem::path(testing::TempDir()) / "options_test_scalar.yaml";
  std::ofstream(file) << "model: {path: /m}\n";
  EXPECT_THAT(ErrorOf({file, "--set", "model.path.x=1"}), testing::HasSubstr("model.path has no keys"));
}

}  // namespace
}  // namespace quire

#include "coordinator/cli/serve_flags.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <string_view>

#include "comm/base/error.h"
#include "coordinator/cli/flag_values.h"
#include "coordinator/cli/model_source.h"

namespace quire {

namespace {

/// A flag that sets one key of a topology file.
struct Flag {
  const char* name;
  const char* key;
  const char* takes;  // placeholder in the help; null: the flag has no argument and sets `value`
  const char* help;
  YamlNode (*read)(const std::string& text, const std::string& flag) = ValueAsItIs;
  const char* value = "";
  bool repeats = false;  // the flag may be given several times
};

constexpr std::string_view kModelFlag = "--model", kModelDirFlag = "--model-dir", kLoadFlag = "--load";

// Flags have vLLM's name if vLLM has the flag. The reader of a key checks the key's value.
const Flag kFlags[] = {
    {.name = "--model",
     .key = "model.path",
     .takes = "PATH",
     .help = "HF directory, GGUF file, or ORG/NAME in the Hugging Face cache; several models: NAME=PATH for each",
     .repeats = true},
    {.name = "--served-model-name",
     .key = "model.name",
     .takes = "NAME",
     .help = "Names that clients use",
     .read = ValueOfNames},
    {.name = "--load-format",
     .key = "model.load_format",
     .takes = "KIND",
     .help = "auto, or dummy: random weights for a config.json, to measure speed"},
    {.name = "--load",
     .key = "load",
     .takes = "WHEN",
     .help = "When a model's workers are started: start, or request: at the first request for the model"},
    {.name = "--keep-alive",
     .key = "keep_alive",
     .takes = "TIME",
     .help = "Time without requests after which a model is unloaded: 5m, 300 (seconds), 0 (at once), -1 (never)"},
    {.name = "--models-memory",
     .key = "models_memory",
     .takes = "SIZE",
     .help = "Memory of all models that are loaded at once, such as 12GiB (a share of what is free)"},
    {.name = "--verify-checksum",
     .key = "model.checksums",
     .takes = "FILE",
     .help = "List of sha256sum to compare the model's files with before they are read"},
    {.name = "--chat-template", .key = "model.chat_template", .takes = "FILE", .help = "Jinja in place of the model's"},
    {.name = "--tool-call-parser",
     .key = "model.tool_call_parser",
     .takes = "NAME",
     .help = "How the model writes calls of tools; auto: as its template says"},
    {.name = "--reasoning-parser",
     .key = "model.reasoning_parser",
     .takes = "NAME",
     .help = "How the model sets thoughts apart; auto: as its template says"},
    {.name = "--pooling",
     .key = "model.pooling",
     .takes = "KIND",
     .help = "What embeddings are made of: auto (the model's files say it), last, mean, cls or none"},
    {.name = "--scoring",
     .key = "model.scoring",
     .takes = "KIND",
     .help = "How pairs of texts are scored: auto (as pooling allows), yes-no, cosine, cross-encoder or none"},
    {.name = "--generation-config",
     .key = "model.generation_config",
     .takes = "WHOSE",
     .help = "Defaults of sampling: model (its files'), quire, none (OpenAI's); auto: the model's, else quire"},
    {.name = "--lora-modules",
     .key = "adapters",
     .takes = "NAME=PATH",
     .help = "LoRA adapters (PEFT directories or GGUF) that clients name as models; may be repeated",
     .read = ValueOfAdapters},
    {.name = "--lora-dir",
     .key = "lora.dirs",
     .takes = "LIST",
     .help = "Directories, with commas, from which operators may load adapters while serving (none)",
     .read = ValueOfWords},
    {.name = "--max-cpu-loras",
     .key = "lora.max_loaded",
     .takes = "N",
     .help = "The most adapters of --lora-dir that are loaded at once (16)"},
    {.name = "--max-lora-rank", .key = "lora.max_rank", .takes = "N", .help = "The largest rank of adapters (any)"},
    {.name = "--lora-memory",
     .key = "lora.memory",
     .takes = "GIB",
     .help = "Memory that each worker keeps free for adapters of --lora-dir, GiB (1)",
     .read = ValueInGibibytes},
    {.name = "--tensor-parallel-size",
     .key = "parallel.tensor",
     .takes = "N",
     .help = "Workers that share each layer (also -tp)"},
    {.name = "--pipeline-parallel-size",
     .key = "parallel.pipeline",
     .takes = "N",
     .help = "Stages of layers, each with workers of its own (also -pp); CPU only"},
    {.name = "--data-parallel-size",
     .key = "parallel.replicas",
     .takes = "N",
     .help = "Replicas: groups of workers that each have the whole model"},
    {.name = "--enable-expert-parallel",
     .key = "parallel.experts",
     .takes = nullptr,
     .help = "Give workers whole experts of a mixture, not columns of each",
     .value = "true"},
    {.name = "--backend", .key = "backend", .takes = "KIND", .help = "cpu, cuda or auto"},
    {.name = "--dtype", .key = "dtype", .takes = "TYPE", .help = "auto, float32, bfloat16 or float16"},
    {.name = "--quantization",
     .key = "quantization",
     .takes = "KIND",
     .help = "of plain weights, and of those that would take 16 bits, as they are loaded: none, int8 or int4; fp8 "
             "on GPUs"},
    {.name = "--activations",
     .key = "activations",
     .takes = "TYPE",
     .help = "what meets quantised weights, on the CPU: int16; int8, faster; auto: int8 for weights of 4 bits"},
    {.name = "--exact",
     .key = "exact",
     .takes = nullptr,
     .help = "On the CPU auto means the finest types: float32 KV cache, int16 activations",
     .value = "true"},
    {.name = "--attention-backend",
     .key = "attention_backend",
     .takes = "KIND",
     .help = "Attention on GPUs: auto, wgmma (prompts by warpgroups), v1 or v2 (of the literature)"},
    {.name = "--threads-per-worker", .key = "threads_per_worker", .takes = "N", .help = "Threads that compute, each"},
    {.name = "--api-key-file",
     .key = "server.api_keys",
     .takes = "FILE",
     .help = "Keys that clients must present (quire keygen --api NAME)"},
    {.name = "--admin-token-file",
     .key = "admin.token",
     .takes = "FILE",
     .help = "Token of the admin port (quire keygen --admin)"},
    {.name = "--ssl-certfile",
     .key = "server.tls.certificate",
     .takes = "FILE",
     .help = "Certificate chain (PEM): serve HTTPS; needs --ssl-keyfile"},
    {.name = "--ssl-keyfile", .key = "server.tls.key", .takes = "FILE", .help = "Its private key (PEM)"},
    {.name = "--admin-ssl-certfile",
     .key = "admin.tls.certificate",
     .takes = "FILE",
     .help = "The same for the admin port"},
    {.name = "--admin-ssl-keyfile", .key = "admin.tls.key", .takes = "FILE", .help = "Its private key (PEM)"},
    {.name = "--allowed-origins",
     .key = "server.allowed_origins",
     .takes = "LIST",
     .help = "Origins of web pages that may ask, with commas (none); * with API keys: all",
     .read = ValueOfWords},
    {.name = "--allowed-hosts",
     .key = "server.allowed_hosts",
     .takes = "LIST",
     .help = "Host names that are answered beside localhost, with commas",
     .read = ValueOfWords},
    {.name = "--no-chat-page",
     .key = "server.chat_page",
     .takes = nullptr,
     .help = "Serve no chat page at / and /chat",
     .value = "false"},
    {.name = "--ignore-unknown-fields",
     .key = "server.ignore_unknown_fields",
     .takes = nullptr,
     .help = "Pass over fields of requests that nobody knows, with a line in the log, instead of refusing them",
     .value = "true"},
    {.name = "--access-log",
     .key = "logs.access",
     .takes = "FORM",
     .help = "A line for each request: off (the default), text or json"},
    {.name = "--access-log-file",
     .key = "logs.access_file",
     .takes = "FILE",
     .help = "File of the access log (standard error)"},
    {.name = "--audit-log-file",
     .key = "logs.audit_file",
     .takes = "FILE",
     .help = "File of what operators did (standard error)"},
    {.name = "--log-level", .key = "logs.level", .takes = "LEVEL", .help = "trace, debug, info, warn, error"},
    {.name = "--log-format",
     .key = "logs.format",
     .takes = "FORM",
     .help = "Lines on standard error, the workers' too: text (the default), or json, an object each"},
    {.name = "--metrics-listen",
     .key = "metrics.listen",
     .takes = "ADDRESS:PORT",
     .help = "Where /metrics is served alone, without a key (it is on the admin port)"},
    {.name = "--metrics-on-data-port",
     .key = "metrics.on_data_port",
     .takes = nullptr,
     .help = "Serve /metrics on the data port, too, without a key",
     .value = "true"},
    {.name = "--otlp-traces-endpoint",
     .key = "traces.endpoint",
     .takes = "URL",
     .help = "Collector of OpenTelemetry that gets spans of requests (OTLP over HTTP)"},
    {.name = "--max-model-len",
     .key = "scheduler.max_model_len",
     .takes = "N",
     .help = "Most tokens of a sequence, prompt and answer; 32K means 32768, 32k 32000",
     .read = ValueOfTokens},
    {.name = "--max-num-seqs",
     .key = "scheduler.max_running",
     .takes = "N",
     .help = "Most sequences that run at once (256)"},
    {.name = "--max-num-queued-reqs",
     .key = "scheduler.max_waiting",
     .takes = "N",
     .help = "Most sequences that wait to run (1024)"},
    {.name = "--max-num-batched-tokens",
     .key = "scheduler.max_step_tokens",
     .takes = "N",
     .help = "Most tokens computed in a step (512; 2048 on GPUs), or auto: as many as there is time for",
     .read = ValueOfTokens},
    {.name = "--target-inter-token-latency",
     .key = "scheduler.target_inter_token_ms",
     .takes = "MS",
     .help = "Time between two tokens of a stream that steps are made for, beside prompts (auto: 100)"},
    {.name = "--speculative-config",
     .key = "speculation",
     .takes = "JSON",
     .help = "Drafts of further tokens from clients' predictions (prediction), also from a sequence's own text "
             "(ngram), also from earlier answers (suffix), from a smaller model (draft_model, with \"model\": FILE), "
             "from a layer that the model's files have for this (mtp), as suffix but only where it pays (auto, the "
             "default), or none (off), as in '{\"method\": \"ngram\", "
             "\"num_speculative_tokens\": 8}'; answers stay the same",
     .read = ParseYaml},
    {.name = "--kv-events-config",
     .key = "kv_events",
     .takes = "JSON",
     .help = "Publish what enters and leaves the prefix cache, for routers outside, for example "
             "'{\"endpoint\": \"tcp://*:5557\", \"allow_unauthenticated\": true}'",
     .read = ParseYaml},
    {.name = "--preemption-mode", .key = "scheduler.preemption", .takes = "MODE", .help = "auto, recompute or swap"},
    {.name = "--block-size", .key = "cache.block_size", .takes = "N", .help = "Tokens of a KV block (16)"},
    {.name = "--num-kv-blocks",
     .key = "cache.num_blocks",
     .takes = "N",
     .help = "KV blocks, instead of sizing them from memory"},
    {.name = "--kv-cache-memory-bytes",
     .key = "cache.memory_bytes",
     .takes = "SIZE",
     .help = "KV memory of each worker, for example 2GiB"},
    {.name = "--gpu-memory-utilization",
     .key = "cache.memory",
     .takes = "SHARE",
     .help = "Share of the free memory for KV blocks (0.90)"},
    {.name = "--swap-space",
     .key = "cache.host_swap",
     .takes = "GIB",
     .help = "Host memory for swapped and cached blocks, GiB",
     .read = ValueInGibibytes},
    {.name = "--kv-cache-dtype",
     .key = "cache.dtype",
     .takes = "TYPE",
     .help = "auto; fp8 on GPUs; float32, float16, int8 on the CPU"},
    {.name = "--enable-prefix-caching",
     .key = "cache.prefix_caching",
     .takes = nullptr,
     .help = "Reuse blocks of shared prefixes (the default)",
     .value = "true"},
    {.name = "--no-enable-prefix-caching",
     .key = "cache.prefix_caching",
     .takes = nullptr,
     .help = "Compute every prompt whole",
     .value = "false"},
    {.name = "--kv-disk",
     .key = "cache.disk.dir",
     .takes = "DIR",
     .help = "Directory to keep cached blocks in when the server ends (it holds prompts and answers)"},
    {.name = "--kv-disk-size",
     .key = "cache.disk.size",
     .takes = "GIB",
     .help = "The most that all files in --kv-disk may have, GiB (16)",
     .read = ValueInGibibytes},
    {.name = "--kv-disk-days",
     .key = "cache.disk.days",
     .takes = "N",
     .help = "Days after which an unused file in --kv-disk is removed (30)"},
    {.name = "--seed", .key = "seed", .takes = "N", .help = "Seed of requests that bring none (random without it)"},
    {.name = "--journal",
     .key = "journal",
     .takes = "DIR",
     .help = "Directory to keep the step journal in (it holds prompts and answers)"},
    {.name = "--batch-dir",
     .key = "batches.dir",
     .takes = "DIR",
     .help = "Directory to keep clients' files and batches in; without it /v1/files and /v1/batches refuse"},
    {.name = "--batch-max-bytes",
     .key = "batches.max_bytes",
     .takes = "SIZE",
     .help = "Bytes of all files and results in --batch-dir (4GiB)"},
    {.name = "--batch-concurrency",
     .key = "batches.concurrency",
     .takes = "N",
     .help = "Requests of batches that run at once, at most (16); one while others' requests wait or run"},
};

void TakePositional(const std::string& given, ServeFlags& flags) {
  const std::string extension = std::filesystem::path(given).extension();
  if (extension == ".yaml" || extension == ".yml") {
    flags.topology_file = given;
  } else if (!flags.NamesModel()) {
    flags.given.emplace_back(kModelFlag, given);
  } else {
    throw CLI::ValidationError(fmt::format("two models are named: {}, and one with --model", given));
  }
}

/// Returns the placeholder in the help, with the flag's values if they are listed: KIND:{auto,cpu,cuda}.
std::string PlaceholderOf(const Flag& flag) {
  const std::vector<std::string> values = ValuesOfFlag(flag.name);
  return values.empty() ? flag.takes : fmt::format("{}:{{{}}}", flag.takes, fmt::join(values, ","));
}

void AddFlag(CLI::App& app, const Flag& flag, ServeFlags& flags) {
  CLI::Option* option = nullptr;
  if (flag.takes == nullptr) {
    option = app.add_flag_callback(
        flag.name, [&flag, &flags] { flags.given.emplace_back(flag.name, flag.value); }, flag.help);
  } else if (flag.repeats) {
    option = app.add_option_function<std::vector<std::string>>(
        flag.name,
        [&](const std::vector<std::string>& texts) {
          for (const std::string& text : texts) flags.given.emplace_back(flag.name, text);
        },
        flag.help);
    option->type_name(PlaceholderOf(flag))->allow_extra_args(false);
  } else {
    option = app.add_option_function<std::string>(
        flag.name, [&](const std::string& text) { flags.given.emplace_back(flag.name, text); }, flag.help);
    option->type_name(PlaceholderOf(flag));
  }
  option->group(HelpGroupOf(flag.key));
}

/// Returns the position of the equals sign in NAME=PATH; npos if the whole text is a path.
size_t SignOfNamedModel(const std::string& text) {
  const size_t sign = text.find('=');
  std::error_code ignored;
  return sign == 0 || std::filesystem::exists(text, ignored) ? std::string::npos : sign;
}

/// Returns a model as an entry of the list `models` of a topology file.
YamlNode ModelNode(const std::string& name, const std::string& path, const std::string& flag) {
  return {.kind = YamlNode::Kind::kMapping,
          .entries = {{"name", ValueAsItIs(name, flag)}, {"path", ValueAsItIs(path, flag)}}};
}

/// Returns the list of the models in the directory of --model-dir.
SettingOverride ListOfDirectory(const ServeFlags& flags) {
  const std::string flag(kModelDirFlag);
  const auto is_model = [](const auto& given) { return given.first == kModelFlag; };
  if (!flags.topology_file.empty() || std::ranges::any_of(flags.given, is_model))
    Fail("{} {}: give it without --model and without a topology file", flag, flags.model_dir);
  YamlNode list{.kind = YamlNode::Kind::kSequence};
  for (const auto& [name, path] : ModelsIn(flags.model_dir)) list.items.push_back(ModelNode(name, path, flag));
  return {.key = "models", .value = std::move(list), .given_as = flag};
}

/// Returns the list of models that the command line names; nullopt if it names none, or only one path without a name.
std::optional<SettingOverride> ListOfModels(const ServeFlags& flags) {
  std::vector<std::string> texts;
  for (const auto& [name, text] : flags.given) {
    if (name == kModelFlag) texts.push_back(text);
  }
  if (texts.empty() || (texts.size() == 1 && SignOfNamedModel(texts[0]) == std::string::npos)) return std::nullopt;
  const std::string flag(kModelFlag);
  YamlNode list{.kind = YamlNode::Kind::kSequence};
  for (const std::string& text : texts) {
    const size_t sign = SignOfNamedModel(text);
    if (sign == std::string::npos)
      Fail("--model {}: each of several models needs a name; give --model NAME=PATH", text);
    list.items.push_back(ModelNode(text.substr(0, sign), text.substr(sign + 1), flag));
  }
  return SettingOverride{.key = "models", .value = std::move(list), .given_as = flag};
}

}  // namespace

bool ServeFlags::NamesModel() const {
  const auto is_model = [](const auto& flag) { return flag.first == kModelFlag; };
  return !topology_file.empty() || !model_dir.empty() || std::ranges::any_of(given, is_model);
}

void AddServeFlags(CLI::App& app, ServeFlags& f) {
  for (const Flag& flag : kFlags) AddFlag(app, flag, f);
  // Declared after --model, because the parser runs callbacks in this order.
  app.add_option_function<std::string>(
      "model_or_topology", [&f](const std::string& given) { TakePositional(given, f); },
      "What --model takes, or a topology file (.yaml)");
  app.add_option("--model-dir", f.model_dir,
                 "Directory whose models are served under their files' names, each loaded at its first request")
      ->type_name("DIR")
      ->group("Model");
  // The next three flags set only a part of server.listen or admin.listen.
  app.add_option("--host", f.host, "Address to serve on (127.0.0.1)")->group("Serving");
  const CLI::Range ports(0, 65535);
  app.add_option("--port", f.port, "Port to serve on (8000)")->group("Serving")->check(ports);
  app.add_option("--admin-port", f.admin_port, "Admin port on loopback (8001)")->group("Serving")->check(ports);
  app.add_flag("--fetch", f.fetch, "First fetch an ORG/NAME that the Hugging Face cache lacks (from HF_ENDPOINT)")
      ->group("Model");
  app.add_option("--set", f.set, "Any key of a topology file, for example cache.watermark=0.05; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

std::vector<SettingOverride> OverridesOf(const ServeFlags& flags) {
  std::vector<SettingOverride> overrides;
  const std::optional<SettingOverride> models =
      flags.model_dir.empty() ? ListOfModels(flags) : std::optional(ListOfDirectory(flags));
  if (models) overrides.push_back(*models);
  const auto says_when = [](const auto& given) { return given.first == kLoadFlag; };
  if (!flags.model_dir.empty() && std::ranges::none_of(flags.given, says_when))
    overrides.push_back({"load", ValueAsItIs("request", std::string(kModelDirFlag)), std::string(kModelDirFlag)});
  for (const auto& [name, text] : flags.given) {
    if (models && name == kModelFlag) continue;
    const auto flag = std::ranges::find(kFlags, name, [](const Flag& f) { return std::string_view(f.name); });
    QUIRE_CHECK(flag != std::end(kFlags), "{} is no flag", name);
    overrides.push_back({.key = flag->key, .value = flag->read(text, name), .given_as = name});
  }
  for (const std::string& text : flags.set) {
    const size_t sign = text.find('=');
    if (sign == std::string::npos) Fail("--set {}: give KEY=VALUE, for example cache.watermark=0.05", text);
    const std::string key = text.substr(0, sign), value = text.substr(sign + 1), given_as = "--set " + key;
    overrides.push_back({key, value.empty() ? ValueAsItIs("", "") : ParseYaml(value, given_as), given_as});
  }
  return overrides;
}

}  // namespace quire

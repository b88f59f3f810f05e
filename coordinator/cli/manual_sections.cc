#include "coordinator/cli/manual_sections.h"

#include <fmt/format.h>

namespace quire {

namespace {

/// An example of a command's use: the command, the words to type, and their purpose.
struct Example {
  std::string_view command, typed, purpose;
};

constexpr Example kExamples[] = {
    {"serve", "quire serve Qwen/Qwen3-0.6B", "a model of the Hugging Face cache"},
    {"serve", "quire serve model.gguf -tp 2 --max-model-len 8192", "a GGUF file, on two workers"},
    {"serve", "quire serve MODEL --host 0.0.0.0 --api-key-file api.keys", "for others, with keys"},
    {"serve", "quire serve MODEL --served-model-name small gpt-4o-mini", "under two names"},
    {"serve", "quire serve cluster.yaml --set cache.watermark=0.05", "all settings from a file but one"},
    {"check", "quire check cluster.yaml", "says what is missing on which node"},
    {"plan", "quire plan MODEL -tp 4 --rank-memory 16", "on ranks that have 16 GiB each"},
    {"chat", "quire chat --system \"Be brief.\" --temperature 0.2", "with the server on this machine"},
    {"chat", "echo \"Say hello.\" | quire chat https://HOST:8000 --key-file my.key", "one question through a pipe"},
    {"batch", "quire batch run requests.jsonl --max-concurrency 64", "a second run does the rest"},
    {"warm", "quire warm prompts.jsonl --model small", "caches prompts before clients come"},
    {"top", "quire top http://127.0.0.1:8001", "blocks, ranks and requests"},
    {"explain", "quire explain 12 --journal DIR", "why request 12 waited"},
    {"replay", "quire replay --journal DIR", "compares every plan"},
    {"keygen", "quire keygen --api alice --file api.keys", "a key of a client; prints the key once"},
    {"keygen", "quire keygen --admin --file admin.token", "a token of the admin port"},
    {"cache", "quire cache ls DIR", "what servers keep in --kv-disk DIR"},
    {"cache", "quire cache prune DIR --size 4", "keeps the 4 GiB that were used last"},
    {"cache", "quire cache export DIR FILE --pin agent --passphrase-file F", "takes a pinned prompt elsewhere"},
    {"completion", "quire completion bash > ~/.local/share/bash-completion/completions/quire", "for new shells"},
};

struct Entry {
  std::string_view term, meaning;
};

constexpr Entry kStatuses[] = {
    {"0", "The command did what it was asked. A server ended by SIGTERM or SIGINT."},
    {"1", "It failed: workers were lost for good, a request was not answered, plans differ. A new start may help."},
    {"2", "The command line, a setting, a file or the model is wrong or cannot be served. No new start helps."},
};

constexpr Entry kVariables[] = {
    {"HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME, XDG_CACHE_HOME",
     "Where the Hugging Face cache lies, in this order; else ~/.cache/huggingface/hub."},
    {"HF_TOKEN, HF_ENDPOINT", "For --fetch and fetch-model: the token for the hub, and the hub's address."},
    {"QUIRE_CACHE", "Where fetch-model keeps the quickstart model and Hugging Face's client; else ~/.cache/quire."},
    {"OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, OTEL_EXPORTER_OTLP_HEADERS, "
     "OTEL_EXPORTER_OTLP_TRACES_HEADERS, OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_SDK_DISABLED, "
     "OTEL_TRACES_EXPORTER",
     "Settings of traces, as OpenTelemetry defines them; --otlp-traces-endpoint comes before them."},
    {"CUDA_VISIBLE_DEVICES", "The GPUs that workers may use."},
    {"QUIRE_ISA", "A lesser set of instructions that workers shall use, such as avx2 or baseline."},
    {"OMPI_ALLOW_RUN_AS_ROOT, OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
     "Both 1: mpirun runs as root, in containers that are thrown away."},
    {"NCCL_DEBUG, NCCL_IB_DISABLE, NCCL_IB_HCA, NCCL_P2P_DISABLE", "Are passed on to the workers of all nodes."},
    {"XDG_RUNTIME_DIR, TMPDIR", "Where sockets and secrets of a start lie, in a folder of the user's own."},
};

constexpr Entry kFiles[] = {
    {"FILE.yaml", "A topology file: all settings, with keys as docs/settings.md lists them."},
    {"api.keys, admin.token", "Lists of hashes, made by quire keygen, for --api-key-file and --admin-token-file."},
    {"my.key", "One key as quire keygen printed it, for --key-file of chat, batch run, warm, top and bench serve."},
    {"FILE.answers.jsonl", "The answers of quire batch run FILE."},
    {"quire-worker", "The program of the workers, beside quire on every node (launch.worker)."},
    {"generation_config.json", "Of a model: its defaults of sampling (--generation-config)."},
};

std::string InGroff(std::string_view text) {
  std::string escaped = text.starts_with('.') || text.starts_with('\'') ? "\\&" : "";
  // Macros such as .B would take quotation marks for the ends of an argument and drop them.
  for (const char c : text) escaped += c == '\\' ? "\\e" : c == '-' ? "\\-" : c == '"' ? "\\(dq" : std::string(1, c);
  return escaped;
}

template <size_t N>
std::string ListOf(const char* heading, const Entry (&entries)[N]) {
  std::string text = fmt::format(".SH {}\n", heading);
  for (const Entry& entry : entries)
    text += fmt::format(".TP\n.B {}\n{}\n", InGroff(entry.term), InGroff(entry.meaning));
  return text;
}

}  // namespace

void AddExamples(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    std::string lines;
    for (const Example& example : kExamples) {
      if (example.command == command->get_name())
        lines += fmt::format("  {}\n      {}\n", example.typed, example.purpose);
    }
    if (!lines.empty()) command->footer("Examples:\n" + lines);
  }
}

std::string ManualSections() {
  std::string text = ".SH EXAMPLES\n";
  for (const Example& example : kExamples)
    text += fmt::format(".TP\n.B {}\n{}\n", InGroff(example.typed), InGroff(example.purpose));
  return text + ListOf("EXIT STATUS", kStatuses) + ListOf("ENVIRONMENT", kVariables) + ListOf("FILES", kFiles);
}

}  // namespace quire

#include "coordinator/bench/commands.h"

#include <memory>
#include <string>

#include "coordinator/bench/allreduce.h"
#include "coordinator/bench/kernels.h"
#include "coordinator/bench/latency.h"
#include "coordinator/bench/serve_bench.h"
#include "coordinator/bench/throughput.h"
#include "coordinator/bench/tokenizer_bench.h"

namespace quire {

namespace {

void AddCount(CLI::App& app, const char* name, int& value, const char* help) {
  app.add_option(name, value, help)->check(CLI::Range(1, 1 << 20))->capture_default_str();
}

Subcommand AddLatency(CLI::App& bench) {
  struct State : ServerCommand {
    LatencyBench bench;
  };
  const auto state = std::make_shared<State>();
  CLI::App* app = bench.add_subcommand(
      "latency", "The same batch again and again, against what the machine reads and computes at the most");
  AddServeFlags(*app, state->flags);
  AddCount(*app, "--batch-size", state->bench.batch_size, "Requests at once");
  AddCount(*app, "--input-len", state->bench.input_len, "Prompt tokens");
  AddCount(*app, "--output-len", state->bench.output_len, "Generated tokens");
  AddCount(*app, "--num-iters", state->bench.num_iters, "Rounds that count, after one that does not");
  app->add_flag("--json", state->bench.json, "Print the result as JSON");
  return {app, [state] { state->CheckOneModel(); }, [state] { return RunLatencyBench(state->topology, state->bench); }};
}

Subcommand AddThroughput(CLI::App& bench) {
  struct State : ServerCommand {
    ThroughputBench bench;
  };
  const auto state = std::make_shared<State>();
  CLI::App* app = bench.add_subcommand("throughput", "Requests straight into the engine, without HTTP");
  AddServeFlags(*app, state->flags);
  AddCount(*app, "--num-prompts", state->bench.num_prompts, "Requests, all at once");
  AddCount(*app, "--input-len", state->bench.input_len, "Prompt tokens");
  AddCount(*app, "--output-len", state->bench.output_len, "Generated tokens");
  app->add_flag("--json", state->bench.json, "Print the result as JSON");
  return {app, [state] { state->CheckOneModel(); },
          [state] { return RunThroughputBench(state->topology, state->bench); }};
}

Subcommand AddServeBench(CLI::App& bench) {
  const auto state = std::make_shared<ServeBench>();
  CLI::App* app = bench.add_subcommand("serve", "Streams from a server that runs already, through HTTP");
  app->add_option("--base-url", state->base_url, "http://HOST:PORT of the server, or https; an end of /v1 may stand")
      ->capture_default_str();
  app->add_option("--model", state->model, "What the server calls the model");
  app->add_option("--key-file", state->api_key_file, "File whose first line is the API key to send");
  AddCount(*app, "--num-prompts", state->num_prompts, "Requests");
  AddCount(*app, "--input-len", state->input_len, "Prompt tokens");
  AddCount(*app, "--output-len", state->output_len, "Generated tokens");
  AddCount(*app, "--vocab-size", state->vocab_size, "Prompts are random token ids below this");
  app->add_option("--request-rate", state->request_rate, "Requests a second, at random moments (all at once)")
      ->check(CLI::Range(0.0, 1e6));
  app->add_option("--max-concurrency", state->max_concurrency, "Requests under way at most (no limit)")
      ->check(CLI::Range(0, 1 << 16));
  app->add_option("--seed", state->seed, "Seed of prompts and moments")->capture_default_str();
  app->add_flag("--json", state->json, "Print the result as JSON");
  return {app, [] { SetUpLog(LogLevel::kWarn); }, [state] { return RunServeBench(*state); }};
}

Subcommand AddTokenizer(CLI::App& bench) {
  const auto state = std::make_shared<TokenizerBench>();
  CLI::App* app = bench.add_subcommand("tokenizer", "Text to tokens and back, with a model's tokenizer; no workers");
  app->add_option("--model", state->model, "GGUF file or HF directory")->required();
  app->add_option("--text", state->text_file, "UTF-8 text (a page in several languages)");
  AddCount(*app, "--kilobytes", state->kilobytes, "The text is repeated, or cut, to so many");
  AddCount(*app, "--num-iters", state->rounds, "Rounds, of which the median counts");
  app->add_flag("--json", state->json, "Print the result as JSON");
  return {app, [] { SetUpLog(LogLevel::kWarn); }, [state] { return RunTokenizerBench(*state); }};
}

Subcommand AddAllReduce(CLI::App& bench) {
  const auto state = std::make_shared<AllReduceBenchCommand>();
  CLI::App* app = bench.add_subcommand("allreduce", "Sums over the ranks by size: host memory and, if there are, GPUs");
  app->add_option("--tensor-parallel-size,--ranks", state->ranks, "Ranks, also -tp")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  const auto size = [&](const char* name, int64_t& value, const char* help) {
    app->add_option(name, value, help)
        ->transform(CLI::AsSizeValue(false))
        ->check(CLI::Range(int64_t{4}, int64_t{1} << 30))
        ->capture_default_str();
  };
  size("--min-bytes", state->min_bytes, "Shortest message; sizes grow fourfold");
  size("--max-bytes", state->max_bytes, "Longest message");
  app->add_option("--rounds", state->rounds, "Rounds of messages up to 64 KiB; longer ones get fewer, at least 20")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app->add_option("--json", state->json_file, "File to write the results to");
  return {app, [] { SetUpLog(LogLevel::kInfo); }, [state] { return RunAllReduceBenchCommand(*state); }};
}

Subcommand AddKernels(CLI::App& bench) {
  const auto app =
      bench.add_subcommand("kernels", "CUDA kernels against ceilings of the same run; flags: kernels -- --help");
  app->prefix_command();
  return {app, [] {},
          [app] {
            std::vector<std::string> arguments = app->remaining();
            if (!arguments.empty() && arguments.front() == "--") arguments.erase(arguments.begin());
            return RunKernelsBenchCommand(arguments);
          }};
}

}  // namespace

std::vector<Subcommand> AddBench(CLI::App& app) {
  CLI::App* bench = app.add_subcommand("bench", "Measure");
  bench->require_subcommand(1);
  return {AddLatency(*bench),   AddThroughput(*bench), AddServeBench(*bench),
          AddTokenizer(*bench), AddAllReduce(*bench),  AddKernels(*bench)};
}

}  // namespace quire

#include <sodium.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>

#include "comm/error.h"
#include "comm/messages.h"
#include "coordinator/bench/allreduce.h"
#include "coordinator/bench/kernels.h"
#include "coordinator/bench/latency.h"
#include "coordinator/bench/memory.h"
#include "coordinator/bench/serve_bench.h"
#include "coordinator/bench/throughput.h"
#include "coordinator/bench/tokenizer_bench.h"
#include "coordinator/check/command.h"
#include "coordinator/explain_paging.h"
#include "coordinator/gates.h"
#include "coordinator/journal/replay.h"
#include "coordinator/keygen.h"
#include "coordinator/log.h"
#include "coordinator/options.h"
#include "coordinator/serve.h"

namespace {

/// vLLM's users write -tp; one-letter options cannot be told from it by the parser.
std::vector<std::string> Arguments(int argc, char** argv) {
  std::vector<std::string> arguments;
  for (int i = argc - 1; i > 0; --i) {  // the parser takes them last first
    std::string argument = argv[i];
    if (argument == "-tp") argument = "--tensor-parallel-size";
    arguments.push_back(std::move(argument));
  }
  return arguments;
}

/// A subcommand: what it was told, and what it does. Settings are checked apart from the work, because they end with
/// another status.
struct Command {
  CLI::App* app = nullptr;
  std::function<void()> check = [] {};
  std::function<int()> run;
};

/// A command that takes the flags of a server.
struct ServerCommand {
  quire::ServeFlags flags;
  quire::Topology topology;
  void Check() {
    quire::SetUpLog(flags.log_level);
    topology = quire::TopologyFromFlags(flags);
  }
};

Command AddServe(CLI::App& app) {
  const auto state = std::make_shared<ServerCommand>();
  CLI::App* serve = app.add_subcommand("serve", "Launch the workers and serve the OpenAI API");
  quire::AddServeFlags(*serve, state->flags);
  const auto check = [state] {
    state->Check();
    quire::CheckKeyFiles(state->topology);
  };
  return {serve, check, [state] { return quire::Serve(state->topology); }};
}

Command AddCheck(CLI::App& app) {
  struct State {
    quire::ServeFlags flags;
    bool json = false;
  };
  const auto state = std::make_shared<State>();
  CLI::App* check =
      app.add_subcommand("check", "Look at everything that a start of this topology needs, on every node");
  quire::AddServeFlags(*check, state->flags);
  check->add_flag("--json", state->json, "Print the result as JSON");
  return {check, [] { quire::SetUpLog("warn"); },
          [state] { return quire::RunCheckCommand(state->flags, state->json); }};
}

void AddCount(CLI::App& app, const char* name, int& value, const char* help) {
  app.add_option(name, value, help)->check(CLI::Range(1, 1 << 20))->capture_default_str();
}

Command AddLatency(CLI::App& bench) {
  struct State : ServerCommand {
    quire::LatencyBench bench;
  };
  const auto state = std::make_shared<State>();
  CLI::App* app = bench.add_subcommand(
      "latency", "The same batch again and again, against what the machine reads and computes at the most");
  quire::AddServeFlags(*app, state->flags);
  AddCount(*app, "--batch-size", state->bench.batch_size, "Requests at once");
  AddCount(*app, "--input-len", state->bench.input_len, "Prompt tokens");
  AddCount(*app, "--output-len", state->bench.output_len, "Generated tokens");
  AddCount(*app, "--num-iters", state->bench.num_iters, "Rounds that count, after one that does not");
  app->add_flag("--json", state->bench.json, "Print the result as JSON");
  return {app, [state] { state->Check(); }, [state] { return quire::RunLatencyBench(state->topology, state->bench); }};
}

Command AddThroughput(CLI::App& bench) {
  struct State : ServerCommand {
    quire::ThroughputBench bench;
  };
  const auto state = std::make_shared<State>();
  CLI::App* app = bench.add_subcommand("throughput", "Requests straight into the engine, without HTTP");
  quire::AddServeFlags(*app, state->flags);
  AddCount(*app, "--num-prompts", state->bench.num_prompts, "Requests, all at once");
  AddCount(*app, "--input-len", state->bench.input_len, "Prompt tokens");
  AddCount(*app, "--output-len", state->bench.output_len, "Generated tokens");
  app->add_flag("--json", state->bench.json, "Print the result as JSON");
  return {app, [state] { state->Check(); },
          [state] { return quire::RunThroughputBench(state->topology, state->bench); }};
}

Command AddServeBench(CLI::App& bench) {
  const auto state = std::make_shared<quire::ServeBench>();
  CLI::App* app = bench.add_subcommand("serve", "Streams from a server that runs already, through HTTP");
  app->add_option("--base-url", state->base_url, "http://HOST:PORT of the server")->capture_default_str();
  app->add_option("--model", state->model, "What the server calls the model");
  app->add_option("--api-key-file", state->api_key_file, "File with the API key to send");
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
  app->add_option("--plot", state->plot_file, "File to draw the latencies into (SVG)");
  return {app, [] { quire::SetUpLog("warn"); }, [state] { return quire::RunServeBench(*state); }};
}

Command AddTokenizer(CLI::App& bench) {
  const auto state = std::make_shared<quire::TokenizerBench>();
  CLI::App* app = bench.add_subcommand("tokenizer", "Text to tokens and back, with a model's tokenizer; no workers");
  app->add_option("--model", state->model, "GGUF file or HF directory")->required();
  app->add_option("--text", state->text_file, "UTF-8 text (a page in several languages)");
  AddCount(*app, "--kilobytes", state->kilobytes, "The text is repeated, or cut, to so many");
  AddCount(*app, "--num-iters", state->rounds, "Rounds, of which the median counts");
  app->add_flag("--json", state->json, "Print the result as JSON");
  return {app, [] { quire::SetUpLog("warn"); }, [state] { return quire::RunTokenizerBench(*state); }};
}

Command AddMemory(CLI::App& bench) {
  struct State : ServerCommand {
    quire::MemoryBenchCommand bench;
  };
  const auto state = std::make_shared<State>();
  CLI::App* app = bench.add_subcommand("memory",
                                       "What paging saves: against contiguous reservation, on a simulated "
                                       "server and, with --model, on real workers");
  quire::AddServeFlags(*app, state->flags);
  app->add_option("--num-requests", state->bench.simulated.num_requests, "Requests of each simulated trace")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app->add_option("--real-requests", state->bench.real_requests, "Requests of the trace on real workers")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app->add_option("--real-lengths", state->bench.lengths, "Lengths of the trace on real workers")
      ->check(CLI::IsMember({"sharegpt", "alpaca", "uniform"}))
      ->capture_default_str();
  app->add_flag("--json", state->bench.json, "Print the result as JSON");
  app->add_option("--plot", state->bench.plot_directory, "Directory to write the charts (SVG) into");
  const auto check = [state] {
    if (state->flags.model.empty() && state->flags.topology_file.empty())
      return quire::SetUpLog(state->flags.log_level);
    state->Check();
    if (state->flags.max_model_len) state->bench.real_max_model_len = *state->flags.max_model_len;
    state->bench.topology = state->topology;
  };
  return {app, check, [state] { return quire::RunMemoryBenchCommand(state->bench); }};
}

Command AddAllReduce(CLI::App& bench) {
  const auto state = std::make_shared<quire::AllReduceBenchCommand>();
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
  return {app, [] { quire::SetUpLog("info"); }, [state] { return quire::RunAllReduceBenchCommand(*state); }};
}

Command AddKernels(CLI::App& bench) {
  const auto app =
      bench.add_subcommand("kernels", "CUDA kernels against ceilings of the same run; flags: kernels -- --help");
  app->prefix_command();
  return {app, [] {},
          [app] {
            std::vector<std::string> arguments = app->remaining();
            if (!arguments.empty() && arguments.front() == "--") arguments.erase(arguments.begin());
            return quire::RunKernelsBenchCommand(arguments);
          }};
}

Command AddPrinter(CLI::App& app, const char* name, const char* help, std::function<std::string()> text) {
  return {app.add_subcommand(name, help), [] {},
          [text] {
            fmt::print("{}", text());
            return 0;
          }};
}

Command AddExplain(CLI::App& app) {
  struct State {
    std::string request, journal;
  };
  const auto state = std::make_shared<State>();
  CLI::App* explain = app.add_subcommand("explain", "Tell the story of a request: why it waited, who preempted it");
  explain->add_option("request", state->request, "The request's number, or the id that the API answered")->required();
  explain->add_option("--journal", state->journal, "Directory of the step journal")->required();
  return {explain, [] { quire::SetUpLog("info"); },
          [state] {
            fmt::print("{}", quire::ExplainRequest(state->journal, state->request));
            return 0;
          }};
}

Command AddReplay(CLI::App& app) {
  const auto journal = std::make_shared<std::string>();
  CLI::App* replay = app.add_subcommand("replay", "Run the scheduler again over a step journal and compare every plan");
  replay->add_option("--journal", *journal, "Directory of the step journal")->required();
  return {replay, [] { quire::SetUpLog("info"); },
          [journal] {
            const quire::ReplayResult result = quire::Replay(*journal);
            fmt::print("{} segments, {} requests, {} steps: {}\n", result.segments, result.requests, result.steps,
                       result.differing == 0
                           ? "every plan is the same"
                           : fmt::format("{} plans differ, first {}", result.differing, result.first_difference));
            if (!result.foreign.empty()) fmt::print("segments of another version, passed over: {}\n", result.foreign);
            if (!result.torn.empty()) fmt::print("segments that end in a torn record: {}\n", result.torn);
            return result.differing == 0 ? 0 : 1;
          }};
}

Command AddKeygen(CLI::App& app) {
  const auto command = std::make_shared<quire::KeygenCommand>();
  CLI::App* keygen = app.add_subcommand("keygen", "Make keys: of the workers' transport, of API clients, of the admin");
  keygen->add_option("--transport", command->transport_directory,
                     "Directory for the keys of coordinator and workers; those that are there stay");
  keygen->add_option("--ranks", command->ranks, "Workers to make keys for")->check(CLI::Range(1, 1024));
  keygen->add_option("--api", command->api_name, "Name of a client: appends its key's hash to --file");
  keygen->add_flag("--admin", command->admin, "Token of the admin port: writes its hash to --file");
  keygen->add_option("--file", command->file, "File of API keys, or of the admin token");
  return {keygen,
          [command] {
            quire::SetUpLog("info");
            quire::CheckKeygen(*command);
          },
          [command] { return quire::RunKeygen(*command); }};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Quire serves large language models from a paged KV cache over tensor-parallel workers.", "quire");
  app.require_subcommand(1);
  std::vector<Command> commands = {AddServe(app), AddCheck(app)};
  CLI::App* bench = app.add_subcommand("bench", "Measure");
  bench->require_subcommand(1);
  commands.push_back(AddLatency(*bench));
  commands.push_back(AddThroughput(*bench));
  commands.push_back(AddServeBench(*bench));
  commands.push_back(AddTokenizer(*bench));
  commands.push_back(AddMemory(*bench));
  commands.push_back(AddAllReduce(*bench));
  commands.push_back(AddKernels(*bench));
  commands.push_back(AddExplain(app));
  commands.push_back(AddReplay(app));
  commands.push_back(AddKeygen(app));
  commands.push_back(AddPrinter(app, "explain-paging", "Walk through paging with twenty tokens", quire::ExplainPaging));
  commands.push_back(
      AddPrinter(app, "version", "Print the version", [] { return fmt::format("quire {}\n", quire::kBuildVersion); }));
  try {
    app.parse(Arguments(argc, argv));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const auto chosen = std::ranges::find_if(commands, [](const Command& c) { return c.app->parsed(); });
  try {
    if (::sodium_init() < 0) quire::Fail("libsodium cannot be initialised");
    chosen->check();
  } catch (const quire::Error& error) {
    spdlog::error("{}", error.what());
    return 2;
  }
  try {
    return chosen->run();
  } catch (const std::exception& error) {
    spdlog::error("{}", error.what());
    return 1;
  }
}

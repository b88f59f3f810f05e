#include <sodium.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>

#include "comm/error.h"
#include "comm/messages.h"
#include "coordinator/bench_throughput.h"
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

/// Standard output belongs to results; everything said on the way goes to standard error.
void SetUpLog(const std::string& level) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("quire"));
  spdlog::set_pattern("%H:%M:%S.%e %^%l%$ %v");
  spdlog::set_level(spdlog::level::from_str(level));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Quire serves large language models from a paged KV cache over tensor-parallel workers.", "quire");
  app.require_subcommand(1);
  quire::ServeFlags serve_flags, bench_flags;
  quire::ThroughputBench bench;
  CLI::App* serve = app.add_subcommand("serve", "Launch the workers and serve the OpenAI API");
  quire::AddServeFlags(*serve, serve_flags);
  CLI::App* bench_app = app.add_subcommand("bench", "Measure");
  bench_app->require_subcommand(1);
  CLI::App* throughput = bench_app->add_subcommand("throughput", "Requests straight into the engine, without HTTP");
  quire::AddServeFlags(*throughput, bench_flags);
  throughput->add_option("--num-prompts", bench.num_prompts, "Requests, all at once")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  throughput->add_option("--input-len", bench.input_len, "Prompt tokens")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  throughput->add_option("--output-len", bench.output_len, "Generated tokens")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  throughput->add_flag("--json", bench.json, "Print the result as JSON");
  app.add_subcommand("version", "Print the version");
  try {
    app.parse(Arguments(argc, argv));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (app.got_subcommand("version")) {
    fmt::print("quire {}\n", quire::kBuildVersion);
    return 0;
  }
  const quire::ServeFlags& flags = app.got_subcommand(serve) ? serve_flags : bench_flags;
  SetUpLog(flags.log_level);
  quire::Topology topology;
  try {
    if (::sodium_init() < 0) quire::Fail("libsodium cannot be initialised");
    topology = quire::TopologyFromFlags(flags);
  } catch (const quire::Error& error) {
    spdlog::error("{}", error.what());
    return 2;
  }
  try {
    return app.got_subcommand(serve) ? quire::Serve(topology) : quire::RunThroughputBench(topology, bench);
  } catch (const std::exception& error) {
    spdlog::error("{}", error.what());
    return 1;
  }
}

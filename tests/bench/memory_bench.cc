#include <fmt/format.h>
#include <sodium.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <optional>

#include "comm/base/error.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/command_line.h"
#include "tests/bench/engine_bench.h"
#include "tests/bench/memory_report.h"
#include "tests/bench/recovery_crossover.h"

namespace quire {

namespace {

struct MemoryBenchCommand {
  ServerCommand server;
  MemoryBench simulated;
  int real_requests = 32;
  std::string lengths = "sharegpt";  // lengths of the trace on real workers
  bool json = false;
};

struct RealResults {
  std::vector<EngineRun> trace, sharing;
  std::vector<RecoveryPoint> recovery;
};

RealResults RunReal(const MemoryBenchCommand& command) {
  const Topology& topology = command.server.topology;
  const ModelFiles model = ModelFiles::Open(topology.model.path, topology.model.load_format);
  const int64_t asked = topology.scheduler.max_model_len > 0 ? topology.scheduler.max_model_len : 2048;
  const int longest = static_cast<int>(std::min<int64_t>(asked, model.spec().max_position));
  const LengthDistribution lengths = LengthDistributionNamed(command.lengths);
  const uint64_t seed = command.simulated.seed;
  // The KV memory holds one region of `longest` tokens. This is the least memory with which contiguous reservation can
  // serve sequences of that length.
  const auto trace = MakeTrace({lengths, command.real_requests, 0, std::min(longest, 2048), seed});
  const auto few = MakeTrace({lengths, 6, 0, 1024, seed});
  RealResults results;
  spdlog::info("on workers, 1 of 3: {} requests with each policy", trace.size());
  const auto begin = std::chrono::steady_clock::now();
  results.trace = RunTraceOnEngine(topology, model, trace, longest, longest);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  spdlog::info("2 of 3: strategies that share blocks (the first took {:.0f} s; the others take less)", taken.count());
  results.sharing = RunSharingOnEngine(topology, model, few, 1024, 4);
  spdlog::info("3 of 3: bringing sequences back");
  results.recovery = MeasureRecovery(topology, model);
  return results;
}

std::string RealTables(const RealResults& real) {
  std::string out =
      "\nthe same KV memory on real workers (waste: % of the slots in held blocks without a token; "
      "shared: % of blocks saved):\n";
  out += TableOf(real.trace);
  out += fmt::format("throughput of paging over reserve max: {:.2f}x\n",
                     real.trace[0].output_tokens_per_second / real.trace[1].output_tokens_per_second);
  out += "\ndecoding strategies that share blocks, on real workers:\n" + TableOf(real.sharing);
  return out + "\nbringing a preempted sequence back, measured on the workers:\n" + RecoveryTable(real.recovery);
}

/// Estimates the duration of RunMemoryBench from a part of it.
double EstimatedSeconds(MemoryBench bench) {
  constexpr int kPart = 20;
  const int all = bench.num_requests;
  bench.num_requests = std::max(1, all / kPart);
  const auto begin = std::chrono::steady_clock::now();
  RunMemoryBench(bench);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  return taken.count() * all / bench.num_requests;
}

/// Runs the bench and prints tables. With `json`, tables go to standard error and JSON to standard output.
void Run(const MemoryBenchCommand& command) {
  spdlog::info("simulating {} requests of {} traces, which takes about {:.0f} s", command.simulated.num_requests,
               command.simulated.traces.size(), EstimatedSeconds(command.simulated));
  const MemoryReport report = RunMemoryBench(command.simulated);
  const std::vector<RecoveryPoint> modelled = ModelRecovery({});
  std::optional<RealResults> real;
  if (command.server.flags.NamesModel()) real = RunReal(command);
  const std::string tables =
      fmt::format("{}\nbringing a preempted sequence back on an accelerator behind PCIe (modelled):\n{}{}",
                  TableOf(report), RecoveryTable(modelled), real ? RealTables(*real) : "");
  fmt::print(command.json ? stderr : stdout, "{}", tables);
  if (!command.json) return;
  Json json = JsonOf(report);
  json["recovery_modelled"] = RecoveryJson(modelled);
  if (real) {
    json["engine_trace"] = JsonOf(real->trace);
    json["engine_sharing"] = JsonOf(real->sharing);
    json["recovery_measured"] = RecoveryJson(real->recovery);
  }
  fmt::print("{}\n", DumpJson(json));
}

void AddFlags(CLI::App& app, MemoryBenchCommand& command) {
  AddServeFlags(app, command.server.flags);
  app.add_option("--num-requests", command.simulated.num_requests, "Requests of each simulated trace")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--real-requests", command.real_requests, "Requests of the trace on real workers")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--real-lengths", command.lengths, "Lengths of the trace on real workers")
      ->check(CLI::IsMember({"sharegpt", "alpaca", "uniform"}))
      ->capture_default_str();
  app.add_flag("--json", command.json, "Print the result as JSON, from which plot.py draws the charts");
}

}  // namespace

}  // namespace quire

int main(int argc, char** argv) {
  CLI::App app(
      "What paging saves: against contiguous reservation, on a simulated server and, with --model, on workers.");
  quire::MemoryBenchCommand command;
  quire::AddFlags(app, command);
  try {
    app.parse(quire::Arguments(argc, argv));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    if (::sodium_init() < 0) quire::Fail("libsodium cannot be initialised");
    if (command.server.flags.NamesModel()) {
      command.server.Check();
    } else {
      quire::SetUpLog(quire::LogLevel::kInfo);
    }
    quire::Run(command);
    return 0;
  } catch (const std::exception& error) {
    spdlog::error("{}", error.what());
    return 1;
  }
}

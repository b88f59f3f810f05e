#include "coordinator/bench/memory.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <filesystem>

#include "comm/model/formats/mapped_file.h"
#include "coordinator/bench/engine_bench.h"

namespace quire {

namespace {

void Write(const std::string& directory, const NamedChart& chart) {
  WriteTextFile(directory + "/" + chart.file_name, chart.svg);
}

struct RealResults {
  std::vector<EngineRun> trace, sharing;
  std::vector<RecoveryPoint> recovery;
};

RealResults RunReal(const MemoryBenchCommand& command) {
  const ModelFiles model = ModelFiles::Open(command.topology->model.path, command.topology->model.load_format);
  const int longest = static_cast<int>(std::min<int64_t>(command.real_max_model_len, model.spec().max_position));
  const LengthDistribution lengths = LengthDistributionNamed(command.lengths);
  const uint64_t seed = command.simulated.seed;
  // The least memory with which contiguous reservation can serve the model's length at all: one region.
  const auto trace = MakeTrace({lengths, command.real_requests, 0, std::min(longest, 2048), seed});
  const auto few = MakeTrace({lengths, 6, 0, 1024, seed});
  RealResults results;
  results.trace = RunTraceOnEngine(*command.topology, model, trace, longest, longest);
  results.sharing = RunSharingOnEngine(*command.topology, model, few, 1024, 4);
  results.recovery = MeasureRecovery(*command.topology, model);
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

}  // namespace

int RunMemoryBenchCommand(const MemoryBenchCommand& command) {
  if (!command.plot_directory.empty()) std::filesystem::create_directories(command.plot_directory);
  spdlog::info("simulating {} requests of {} traces", command.simulated.num_requests, command.simulated.traces.size());
  const MemoryReport report = RunMemoryBench(command.simulated);
  const std::vector<RecoveryPoint> modelled = ModelRecovery({});
  std::optional<RealResults> real;
  if (command.topology) real = RunReal(command);
  const std::string tables =
      fmt::format("{}\nbringing a preempted sequence back on an accelerator behind PCIe (modelled):\n{}{}",
                  TableOf(report), RecoveryTable(modelled), real ? RealTables(*real) : "");
  fmt::print(command.json ? stderr : stdout, "{}", tables);
  if (command.json) {
    Json json = JsonOf(report);
    json["recovery_modelled"] = RecoveryJson(modelled);
    if (real) {
      json["engine_trace"] = JsonOf(real->trace);
      json["engine_sharing"] = JsonOf(real->sharing);
      json["recovery_measured"] = RecoveryJson(real->recovery);
    }
    fmt::print("{}\n", DumpJson(json));
  }
  if (command.plot_directory.empty()) return 0;
  for (const NamedChart& chart : ChartsOf(report)) Write(command.plot_directory, chart);
  Write(command.plot_directory, RecoveryChart(modelled, "Accelerator behind PCIe (modelled)", "recovery-modelled.svg"));
  if (real)
    Write(command.plot_directory, RecoveryChart(real->recovery, "CPU workers (measured)", "recovery-measured.svg"));
  return 0;
}

}  // namespace quire

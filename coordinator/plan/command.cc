#include "coordinator/plan/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/base/printable.h"
#include "coordinator/cluster/hosts/ceilings.h"
#include "coordinator/cluster/hosts/memory_plan.h"
#include "coordinator/cluster/hosts/model_shares.h"
#include "coordinator/cluster/launch/backend_settings.h"
#include "coordinator/cluster/launch/launcher.h"
#include "coordinator/plan/load_forecast.h"
#include "coordinator/plan/load_report.h"
#include "coordinator/plan/memory_report.h"
#include "coordinator/plan/size_text.h"
#include "coordinator/plan/smaller_ways.h"
#include "coordinator/plan/speed_plan.h"
#include "coordinator/plan/stage_text.h"

namespace quire {

namespace {

constexpr int64_t kLengths[] = {512, 2048, 8192, 32768, 131072};

struct Concurrency {
  int64_t tokens = 0, sequences = 0;
};

/// All results that `quire plan` reports.
struct Report {
  const Topology& topology;
  const ModelFiles& model;
  MemoryPlan memory;
  std::vector<Concurrency> concurrency;
  std::optional<PeakRates> all_peaks;  // peak rates of all ranks together, where they were given
  std::optional<PeakRates> peaks;      // peak rates of the ranks of a stage
  std::string peaks_source;            // the source of the peak rates, or the reason why no speed is given
  std::vector<SpeedRow> steps, prompts;
  std::vector<LoadRow> loads;
  std::optional<CutReport> cuts;
  std::vector<std::string> mpirun;
};

void AddPeaks(const PlanCommand& command, Report& report) {
  const AssignMessage& assign = report.memory.assignment;
  if (!command.peaks.empty()) {
    const double operations = command.peaks[1] * 1e12;
    report.all_peaks = PeakRates{command.peaks[0] * 1e9, operations, operations, operations};
    report.peaks = RatesOfPart(*report.all_peaks, 1.0 / report.topology.parallel.pipeline);
    report.peaks_source = "as given";
    return;
  }
  if (!command.speed || assign.compute.backend != BackendKind::kCpu || !OnThisHost(report.topology)) {
    report.peaks_source = "what the ranks reach is measured for a CPU and this host alone: give --peaks";
    return;
  }
  MachineCeilings ceilings;
  try {
    ceilings = MeasureMachineCeilings(report.topology);
  } catch (const Error& error) {  // report memory even without speed
    report.peaks_source = fmt::format("not measured: {}", error.what());
    return;
  }
  const bool int8 = assign.compute.activations == ActivationType::kInt8 && ceilings.int8 > 0;
  PeakRates peaks{ceilings.steady_bytes, ceilings.multiply_add, ceilings.multiply_add, ceilings.multiply_add};
  if (HasQuantizedWeights(report.model, assign.compute.quantization)) {
    peaks.products = int8 ? ceilings.int8 : ceilings.int16;
    peaks.products_in_bytes = int8;
  }
  // kernels/cpu/isa/kv_form.h chooses byte products for attention under the same conditions.
  if (int8 && assign.compute.kv_cache_dtype == KvCacheDtype::kInt8 && ceilings.isa != "avx2") {
    peaks.attention = ceilings.int8;
    peaks.attention_in_bytes = true;
  }
  report.peaks = RatesOfPart(peaks, 1.0 / report.topology.parallel.pipeline);
  report.peaks_source = TextOf(ceilings);
}

void AddSpeed(Report& report) {
  if (!report.peaks) return;
  const ModelSpec& spec = report.model.spec();
  // In a pipeline of S stages a step has 1 / S of the sequences, and S steps run at the same time.
  const int64_t stages = report.topology.parallel.pipeline;
  const auto step = [&](int64_t sequences, int64_t tokens) {
    const int64_t rows = (sequences + stages - 1) / stages;
    report.steps.push_back(StepSpeed(spec, report.memory, *report.peaks, rows, tokens));
    report.steps.back().sequences = sequences;
  };
  for (const Concurrency& c : report.concurrency) step(1, c.tokens);
  for (const Concurrency& c : report.concurrency) {
    if (c.sequences > 1) step(c.sequences, c.tokens);
  }
  for (const Concurrency& c : report.concurrency)
    report.prompts.push_back(PromptSpeed(spec, report.memory, *report.peaks, c.tokens));
}

void AddLoads(const PlanCommand& command, Report& report) {
  if (command.trace.empty()) return;
  if (!report.peaks) Fail("--simulate needs to know how fast steps are: {}", report.peaks_source);
  const std::vector<TracedRequest> trace = ReadTrace(command.trace);
  for (const double rate : command.rates) {
    report.loads.push_back(Forecast(report.topology, report.model.spec(), report.memory, *report.peaks, trace, rate));
  }
}

Report MakeReport(const Topology& topology, const ModelFiles& model, const PlanCommand& command, MemoryPlan memory) {
  Report report{.topology = topology, .model = model, .memory = std::move(memory)};
  const MemoryPlan& plan = report.memory;
  const auto add = [&](int64_t tokens) {
    report.concurrency.push_back({tokens, SequencesAtOnce(plan, topology, model.spec(), tokens)});
  };
  for (const int64_t tokens : kLengths) {
    if (tokens < plan.model_len) add(tokens);
  }
  add(plan.model_len);
  if (topology.launch.method != LaunchMethod::kExternal) {
    report.mpirun = MpirunCommand(topology, {WorkerBinary(topology), "--coordinator", "ENDPOINT", "--epoch", "EPOCH"},
                                  "DIRECTORY", plan.placement.nodes);
  }
  AddPeaks(command, report);
  AddSpeed(report);
  AddLoads(command, report);
  return report;
}

void PrintMemory(const Report& report) {
  const MemoryPlan& plan = report.memory;
  const AssignMessage& assign = plan.assignment;
  fmt::print("model    {}: sequences of up to {} tokens\n", WithoutControls(report.model.path()), plan.model_len);
  fmt::print("backend  {}, {} ranks{}\n", NameOf(assign.compute.backend), plan.ranks.size(),
             report.topology.parallel.replicas > 1
                 ? fmt::format(" in each of {} replicas", report.topology.parallel.replicas)
                 : "");
  if (assign.compute.backend == BackendKind::kCpu)
    fmt::print("numbers  {}\n", DescribeNumbers(report.topology, assign.compute));
  for (size_t r = 0; r < plan.ranks.size(); ++r) {
    const RankInfo& rank = plan.ranks[r];
    fmt::print("rank {:<3} {}: {}{}\n", r, WithoutControls(rank.host),
               StageText(report.model.spec(), assign.cut(), static_cast<Rank>(r)), MemoryText(plan, rank));
  }
  for (const std::string& line : WaitLines(report.model.spec(), assign.cut())) fmt::print("waits    {}\n", line);
  fmt::print("blocks   {} of {} tokens, {} bytes on the rank with the most heads and layers\n", plan.usable_blocks(),
             assign.block_size, std::ranges::max(plan.ranks, {}, &RankInfo::bytes_per_block).bytes_per_block);
  for (const std::string& warning : plan.warnings) fmt::print("warning  {}\n", WithoutControls(warning));
  for (const Concurrency& c : report.concurrency)
    fmt::print("at once  {} sequences of {} tokens\n", c.sequences, c.tokens);
}

void PrintSpeed(const Report& report) {
  fmt::print("ceilings {}\n", WithoutControls(report.peaks_source));
  for (const SpeedRow& row : report.prompts) {
    fmt::print("prompt   of {} tokens: {:.2f} s, {:.0f} tok/s (at best {:.2f} s; bound by {})\n", row.tokens,
               row.expected, static_cast<double>(row.tokens) / row.expected, row.roofline, row.bound);
  }
  for (const SpeedRow& row : report.steps) {
    fmt::print("step     of {} at {} tokens: {:.2f} ms, {:.0f} tok/s (at best {:.2f} ms; bound by {})\n", row.sequences,
               row.tokens, row.expected * 1e3, static_cast<double>(row.sequences) / row.expected, row.roofline * 1e3,
               row.bound);
  }
}

Json JsonOf(const Report& report) {
  const MemoryPlan& plan = report.memory;
  Json ranks = Json::array(), concurrency = Json::array();
  for (size_t r = 0; r < plan.ranks.size(); ++r) {
    const RankInfo& rank = plan.ranks[r];
    const auto [first_layer, end_layer] = LayersOf(report.model.spec(), plan.assignment.cut(), static_cast<Rank>(r));
    ranks.push_back({{"host", rank.host},
                     {"stage", plan.assignment.cut().StageOf(static_cast<Rank>(r))},
                     {"layers", {first_layer, end_layer}}});
    ranks.back().update(MemoryJson(plan, rank));
  }
  for (const Concurrency& c : report.concurrency)
    concurrency.push_back({{"tokens", c.tokens}, {"sequences", c.sequences}});
  return {{"fits", true},
          {"backend", NameOf(plan.assignment.compute.backend)},
          {"max_model_len", plan.model_len},
          {"block_size", plan.assignment.block_size},
          {"blocks", plan.usable_blocks()},
          {"host_blocks", plan.pools.num_host_blocks},
          {"blocks_per_state", plan.pools.state_blocks},
          {"warnings", plan.warnings},
          {"ranks", ranks},
          {"concurrency", concurrency},
          {"steps", JsonOf(report.steps)},
          {"prompts", JsonOf(report.prompts)},
          {"loads", JsonOf(report.loads)},
          {"ceilings", report.peaks_source},
          {"cuts", report.cuts ? JsonOf(*report.cuts) : Json()},
          {"mpirun", report.mpirun}};
}

ModelFiles OpenPlanned(const Topology::Model& model) {
  return ReadAsSettings([&] { return ModelFiles::Open(model.path, model.load_format, model.AdapterPaths()); });
}

void Print(const Report& report) {
  PrintMemory(report);
  PrintSpeed(report);
  if (!report.mpirun.empty())
    fmt::print("mpirun   {}\n", WithoutControls(fmt::format("{}", fmt::join(report.mpirun, " "))));
  if (!report.loads.empty()) PrintLoads(report.loads);
  if (report.cuts) PrintCuts(*report.cuts);
}

/// Plans the models of a list, which share this host. Returns the exit status: 0 if the list fits, otherwise 1.
int PlanList(const Topology& topology, const PlanCommand& command) {
  if (command.rank_memory_gib > 0) FailSettings("--rank-memory is for one model; a list of models has models_memory");
  if (command.cuts.IsAsked()) FailSettings("--best and --link are for one model; plan each of the list by itself");
  std::deque<ModelFiles> files;
  std::vector<const ModelFiles*> pointers;
  for (const ModelSettings& one : topology.models) files.push_back(OpenPlanned(one.model));
  for (const ModelFiles& one : files) pointers.push_back(&one);
  ListPlan list;
  try {
    list = PlanModels(topology, pointers);
  } catch (const SettingsError&) {
    throw;
  } catch (const Error& error) {
    if (command.json) fmt::print("{}\n", DumpJson({{"fits", false}, {"problem", error.what()}}));
    if (!command.json) fmt::print("does not fit: {}\n", WithoutControls(error.what()));
    return 1;
  }
  NodeAnswers nodes;
  Json models = Json::array();
  if (!command.json)
    fmt::print("models   {}, in {} {}\n", files.size(), Size(list.room),
               list.at_once ? "together" : "in turn: not all fit at once, so idle ones are unloaded for others");
  for (size_t i = 0; i < files.size(); ++i) {
    const Topology& one = list.models[i];
    const Report report = MakeReport(one, files[i], command, PlanMemory(one, files[i], 0, nodes));
    if (command.json) {
      models.push_back(JsonOf(report));
      models.back()["name"] = one.model.name;
    } else {
      fmt::print("\nname     {}\n", WithoutControls(one.model.name));
      Print(report);
    }
  }
  if (command.json)
    fmt::print(
        "{}\n",
        DumpJson(
            {{"fits", true}, {"at_once", list.at_once}, {"models_memory", list.room}, {"models", std::move(models)}}));
  return 0;
}

}  // namespace

int RunPlanCommand(const Topology& listed, const PlanCommand& command) {
  if (NumModels(listed) > 1) return PlanList(listed, command);
  const Topology topology = ModelTopology(listed, 0);
  const ModelFiles model = OpenPlanned(topology.model);
  const auto rank_memory = static_cast<int64_t>(command.rank_memory_gib * (1 << 30));
  NodeAnswers nodes;
  MemoryPlan memory = PlanMemory(topology, model, rank_memory, nodes);
  if (!memory.problem.empty()) {
    const std::vector<std::string> fits = WhatWouldFit(topology, model, rank_memory, nodes);
    if (command.json) {
      fmt::print(
          "{}\n",
          DumpJson({{"fits", false}, {"problem", memory.problem}, {"warnings", memory.warnings}, {"would_fit", fits}}));
      return 1;
    }
    for (const std::string& warning : memory.warnings) fmt::print("warning  {}\n", WithoutControls(warning));
    fmt::print("does not fit: {}\n", WithoutControls(memory.problem));
    for (const std::string& line : fits) fmt::print("would fit with {}\n", WithoutControls(line));
    return 1;
  }
  Report report = MakeReport(topology, model, command, std::move(memory));
  if (command.cuts.IsAsked())
    report.cuts = CompareCuts(topology, model, command.cuts, rank_memory, report.all_peaks, nodes);
  if (command.json)
    fmt::print("{}\n", DumpJson(JsonOf(report)));
  else
    Print(report);
  return 0;
}

}  // namespace quire

#include "coordinator/plan/cut_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "comm/base/error.h"
#include "comm/base/printable.h"
#include "comm/model/stage_plan.h"
#include "coordinator/cluster/hosts/link_bench.h"
#include "coordinator/plan/stage_text.h"
#include "coordinator/plan/step_runs.h"

namespace quire {

namespace {

/// Returns the rows of a step. The stages of a pipeline compute different streams at the same time, so each stage's
/// step has a part of the streams.
int RowsOf(int streams, int stages) { return (streams + stages - 1) / stages; }

/// Returns the rows of all steps that are compared.
std::vector<int> RowsOfAll(const Topology& topology, const CutQuestion& question) {
  const int ranks = topology.parallel.num_ranks();
  std::set<int> rows;
  for (const int streams : question.streams) {
    for (int stages = 1; stages <= ranks; ++stages) {
      if (ranks % stages == 0 && (question.best || stages == topology.parallel.pipeline))
        rows.insert(RowsOf(streams, stages));
    }
  }
  return {rows.begin(), rows.end()};
}

struct Candidate {
  Topology topology;
  MemoryPlan plan;
  std::vector<int> host_of_rank;
  bool one_host = false;

  GroupCut cut() const { return plan.assignment.cut(); }
  int RowsOfStep(int streams) const { return RowsOf(streams, topology.parallel.pipeline); }
  bool SpansHosts() const { return RanksOfStageOnHost(cut(), host_of_rank) < cut().stage_size(); }
};

class Comparison {
 public:
  Comparison(const Topology& topology, const ModelFiles& model, const CutQuestion& question, int64_t rank_memory,
             const std::optional<PeakRates>& peaks, NodeAnswers& nodes)
      : topology_(topology),
        model_(model),
        question_(question),
        rank_memory_(rank_memory),
        peaks_(peaks),
        nodes_(nodes),
        runs_(topology, model, RowsOfAll(topology, question)) {}

  CutReport Run() {
    const int ranks = topology_.parallel.num_ranks();
    if (question_.best && ranks == 1)
      FailSettings("--best compares ways to cut a model among several workers: give -tp N, or -pp N");
    for (int tensor = ranks; tensor >= 1; --tensor) {
      if (ranks % tensor == 0 && (question_.best || tensor == topology_.parallel.tensor))
        Add(tensor, ranks / tensor, topology_.nodes, false);
    }
    if (question_.best) AddOneHost();
    if (candidates_.empty()) Fail("no way to cut the model: {}", fmt::join(report_.impossible, "; "));
    if (candidates_.front().plan.assignment.compute.backend != BackendKind::kCpu)
      FailSettings("--best and --link are for the CPU backend: use --backend cpu");
    MeasureOrStateLinks();
    for (const Candidate& one : candidates_) {
      for (const int streams : question_.streams) report_.speeds.push_back(SpeedOf(one, streams));
    }
    report_.compute_source = peaks_ ? "reckoned from the peak rates"
                                    : fmt::format("measured with the model on this host, sequences of {} to {} tokens",
                                                  kRunPrompt, kRunPrompt + kRunDrawn);
    return std::move(report_);
  }

 private:
  /// True when every worker is on a host of its own: a link is stated, and the topology has no nodes.
  bool EachItsOwnHost() const { return topology_.nodes.empty() && !question_.link.empty(); }

  void Add(int tensor, int pipeline, const std::vector<Topology::Node>& nodes, bool one_host) {
    Candidate one{.topology = topology_, .plan = {}, .host_of_rank = {}, .one_host = one_host};
    Topology::Parallel& parallel = one.topology.parallel;
    if (tensor != parallel.tensor) parallel.shares.clear();
    if (pipeline != parallel.pipeline) parallel.stages.clear();
    parallel.tensor = tensor;
    parallel.pipeline = pipeline;
    one.topology.nodes = nodes;
    const std::string name = CutSpeed{.tensor = tensor, .pipeline = pipeline, .one_host = one_host}.Name();
    try {
      one.plan = PlanMemory(one.topology, model_, rank_memory_, nodes_);
    } catch (const SettingsError& error) {
      report_.impossible.push_back(fmt::format("{}: {}", name, error.what()));
      return;
    }
    if (!one.plan.problem.empty()) {
      report_.impossible.push_back(fmt::format("{}: {}", name, one.plan.problem));
      return;
    }
    one.host_of_rank.resize(static_cast<size_t>(tensor * pipeline));  // all on host 0
    if (!one_host && EachItsOwnHost()) {
      std::iota(one.host_of_rank.begin(), one.host_of_rank.end(), 0);
    } else if (!one_host) {
      for (size_t i = 0; i < one.plan.placement.nodes.size(); ++i) {
        const NodeRanks& ranks = one.plan.placement.nodes[i];
        std::fill_n(one.host_of_rank.begin() + ranks.first, ranks.count, static_cast<int>(i));
      }
    }
    candidates_.push_back(std::move(one));
  }

  /// Adds a candidate that has only the first host's workers, if the other candidates have several hosts.
  void AddOneHost() {
    if (candidates_.empty()) return;
    const std::vector<int>& hosts = candidates_.front().host_of_rank;
    const auto here = static_cast<int>(std::ranges::count(hosts, hosts.front()));
    if (here == std::ssize(hosts)) return;
    std::vector<Topology::Node> first = topology_.nodes;
    if (!first.empty()) first.resize(1);
    Add(here, 1, first, true);
  }

  void MeasureOrStateLinks() {
    if (!question_.link.empty()) {
      report_.link_source = fmt::format("as stated, {} Gbit/s and {} ms", question_.link[0], question_.link[1]);
      return;
    }
    std::vector<std::pair<int, int>> cuts;
    const Candidate* whole = nullptr;
    for (const Candidate& one : candidates_) {
      if (one.one_host) continue;
      whole = whole == nullptr ? &one : whole;
      cuts.emplace_back(one.topology.parallel.tensor, one.topology.parallel.pipeline);
    }
    if (whole == nullptr) return;
    measured_ =
        MeasureWaits(whole->topology, whole->plan.placement.nodes, cuts, RowBytes(), RowsOfAll(topology_, question_));
    report_.link_source = "measured";
  }

  int64_t RowBytes() const { return model_.spec().hidden_size * static_cast<int64_t>(sizeof(float)); }

  CutWait WaitOf(const Candidate& one, int rows) const {
    if (one.one_host) return {};
    if (!question_.link.empty()) {
      const HostLink link{question_.link[0] * 1e9 / 8, question_.link[1] * 1e-3};
      return WaitOver(link, one.cut(), one.host_of_rank, RowBytes(), rows);
    }
    const Topology::Parallel& parallel = one.topology.parallel;
    for (const MeasuredWait& wait : measured_) {
      if (wait.tensor == parallel.tensor && wait.pipeline == parallel.pipeline && wait.rows == rows)
        return {wait.sum_seconds, wait.turn_seconds};
    }
    Fail("the ranks did not measure -tp {} -pp {}", parallel.tensor, parallel.pipeline);
  }

  /// Returns the seconds in which the stages compute a step of `rows` rows, one stage after the other. All ranks of a
  /// stage compute at the same time.
  double ComputeSeconds(const Candidate& one, int rows) {
    const GroupCut cut = one.cut();
    if (peaks_) {
      const PeakRates stage =
          RatesOfPart(*peaks_, static_cast<double>(cut.stage_size()) / topology_.parallel.num_ranks());
      return StepSpeed(model_.spec(), one.plan, stage, rows, kRunPrompt + kRunDrawn / 2).expected;
    }
    const int together = RanksOfStageOnHost(cut, one.host_of_rank);
    const auto most_here = [&] {
      int most = 0;
      for (const int host : one.host_of_rank)
        most = std::max(most, static_cast<int>(std::ranges::count(one.host_of_rank, host)));
      return most;
    };
    const double seconds = runs_.Seconds(together, ThreadsOfWorker(topology_, most_here()), rows);
    return seconds * together / cut.stage_size();
  }

  CutSpeed SpeedOf(const Candidate& one, int streams) {
    const Topology::Parallel& parallel = one.topology.parallel;
    const int rows = one.RowsOfStep(streams);
    CutSpeed speed{.tensor = parallel.tensor,
                   .pipeline = parallel.pipeline,
                   .one_host = one.one_host,
                   .streams = streams,
                   .compute = ComputeSeconds(one, rows),
                   .sums = 0,
                   .wait = WaitOf(one, rows),
                   .largest_stage = PartOfLargestStage(model_, one.cut().stage_layers)};
    // The time to compute includes all-reduces within a host, so only the waits between hosts are counted as sums.
    if (one.SpansHosts()) speed.sums = WaitsOf(model_.spec(), parallel.tensor, parallel.pipeline).sums;
    return speed;
  }

  const Topology& topology_;
  const ModelFiles& model_;
  const CutQuestion& question_;
  const int64_t rank_memory_;
  const std::optional<PeakRates>& peaks_;
  NodeAnswers& nodes_;
  StepRuns runs_;
  std::vector<Candidate> candidates_;
  std::vector<MeasuredWait> measured_;
  CutReport report_;
};

}  // namespace

CutReport CompareCuts(const Topology& topology, const ModelFiles& model, const CutQuestion& question,
                      int64_t rank_memory, const std::optional<PeakRates>& peaks, NodeAnswers& nodes) {
  return Comparison(topology, model, question, rank_memory, peaks, nodes).Run();
}

void PrintCuts(const CutReport& report) {
  fmt::print("compute  {}; links {}\n", report.compute_source, report.link_source);
  for (const CutSpeed& one : report.speeds) {
    fmt::print(
        "cut      {} at {} stream{}: {:.1f} tok/s, {:.2f} ms a token; {:.2f} to compute, {} sums over hosts of {:.3f}, "
        "{:.3f} to hand over{}\n",
        one.Name(), one.streams, one.streams == 1 ? "" : "s", one.tokens_a_second(), one.seconds() * 1e3,
        one.compute * 1e3, one.sums, one.wait.sum * 1e3, one.wait.turn * 1e3,
        one.pipeline == 1 ? "" : fmt::format("; the largest stage has {:.0f} % of the work", one.largest_stage * 100));
  }
  for (const std::string& line : report.impossible) fmt::print("not      {}\n", WithoutControls(line));
  for (const std::string& line : AdviceOf(report.speeds)) fmt::print("take     {}\n", line);
}

Json JsonOf(const CutReport& report) {
  Json cuts = Json::array();
  for (const CutSpeed& one : report.speeds) {
    cuts.push_back({{"tensor", one.tensor},
                    {"pipeline", one.pipeline},
                    {"one_host", one.one_host},
                    {"streams", one.streams},
                    {"tokens_a_second", one.tokens_a_second()},
                    {"seconds", one.seconds()},
                    {"compute_seconds", one.compute},
                    {"sums", one.sums},
                    {"sum_seconds", one.wait.sum},
                    {"turn_seconds", one.wait.turn},
                    {"largest_stage", one.largest_stage}});
  }
  return {{"cuts", std::move(cuts)},
          {"impossible", report.impossible},
          {"take", AdviceOf(report.speeds)},
          {"compute", report.compute_source},
          {"links", report.link_source}};
}

}  // namespace quire

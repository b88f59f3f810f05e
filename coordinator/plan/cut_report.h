#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/base/json.h"
#include "coordinator/plan/cut_speed.h"
#include "coordinator/plan/speed_plan.h"

namespace quire {

/// The question to `quire plan`: how to divide the model among the workers (tensor-parallel ranks, pipeline stages).
struct CutQuestion {
  bool best = false;         // true: all divisions among as many workers; false: only the topology's
  std::vector<double> link;  // between hosts: Gbit/s and ms one way; empty: measured
  std::vector<int> streams{1, 32};

  bool IsAsked() const { return best || !link.empty(); }
};

struct CutReport {
  std::vector<CutSpeed> speeds;
  std::vector<std::string> impossible;  // ways that the model or the memory does not allow, each with the reason
  std::string compute_source, link_source;
};

/// Predicts the time of a step for each way to divide the model. Where a stage spans hosts, every host is assumed to be
/// like this one. The time to compute comes from `peaks`, the rates of all ranks together, or is measured with the
/// model on this host. If `question` states a link and the topology has no nodes, every worker counts as being on a
/// host of its own. rank_memory: the bytes that each rank may use, as in PlanMemory. Throws Error with the remedy.
CutReport CompareCuts(const Topology& topology, const ModelFiles& model, const CutQuestion& question,
                      int64_t rank_memory, const std::optional<PeakRates>& peaks, NodeAnswers& nodes);

void PrintCuts(const CutReport& report);
Json JsonOf(const CutReport& report);

}  // namespace quire

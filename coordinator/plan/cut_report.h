#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/base/json.h"
#include "coordinator/plan/cut_speed.h"
#include "coordinator/plan/speed_plan.h"

namespace quire {

/// What `quire plan` is asked about ways to cut the model among the workers.
struct CutQuestion {
  bool best = false;         // all ways among as many workers; otherwise only the topology's own
  std::vector<double> link;  // between hosts: Gbit/s and ms one way; empty: measured
  std::vector<int> streams{1, 32};

  bool IsAsked() const { return best || !link.empty(); }
};

struct CutReport {
  std::vector<CutSpeed> speeds;
  std::vector<std::string> impossible;  // ways that the model or the memory does not allow, each with the reason
  std::string compute_source, link_source;
};

/// Predicts the steps of each way. Where a stage spans hosts, each host is thought to be like this one. The time to
/// compute is reckoned from `peaks` of all ranks together, or else measured with the model on this host. Without nodes,
/// a stated link joins hosts of one worker each. rank_memory: as for PlanMemory. Throws Error with the remedy.
CutReport CompareCuts(const Topology& topology, const ModelFiles& model, const CutQuestion& question,
                      int64_t rank_memory, const std::optional<PeakRates>& peaks, NodeAnswers& nodes);

void PrintCuts(const CutReport& report);
Json JsonOf(const CutReport& report);

}  // namespace quire

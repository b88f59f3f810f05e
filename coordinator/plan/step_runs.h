#pragma once

#include <array>
#include <map>
#include <utility>
#include <vector>

#include "comm/model/model_files.h"
#include "comm/topology/topology.h"

namespace quire {

/// Tokens of each sequence in a run: its prompt, and the tokens that are sampled after it.
inline constexpr int kRunPrompt = 16, kRunDrawn = 49;

/// Runs a model on this host for some seconds to find out how long its steps take.
class StepRuns {
 public:
  /// `streams`: the numbers of sequences per step for which Seconds() will be called.
  StepRuns(const Topology& topology, const ModelFiles& model, std::vector<int> streams)
      : topology_(topology), model_(model), streams_(std::move(streams)) {}

  /// Returns the mean seconds of a step of `streams` sequences on one stage of `ranks` workers with `threads` threads
  /// each. The first call for a number of ranks and threads starts the workers. Throws Error with the remedy when the
  /// model does not run with these numbers.
  double Seconds(int ranks, int threads, int streams);

 private:
  void Run(int ranks, int threads);

  const Topology& topology_;
  const ModelFiles& model_;
  const std::vector<int> streams_;
  std::map<std::array<int, 3>, double> seconds_;  // measured seconds of a step, by ranks, threads and streams
};

}  // namespace quire

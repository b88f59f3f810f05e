#pragma once

#include <array>
#include <map>
#include <utility>
#include <vector>

#include "comm/model/model_files.h"
#include "comm/topology/topology.h"

namespace quire {

/// Tokens of each sequence in a short run: its prompt, and those that are drawn after it.
inline constexpr int kRunPrompt = 16, kRunDrawn = 49;

/// Runs a model on this host for some seconds to find out how long its steps take.
class StepRuns {
 public:
  /// `streams`: the numbers of sequences in a step that will be asked for.
  StepRuns(const Topology& topology, const ModelFiles& model, std::vector<int> streams)
      : topology_(topology), model_(model), streams_(std::move(streams)) {}

  /// The mean seconds of a step of so many sequences on one stage of `ranks` workers, each with `threads` threads.
  /// Starts the workers at the first call for so many ranks and threads. Throws Error with the remedy when the model
  /// does not run so.
  double Seconds(int ranks, int threads, int streams);

 private:
  void Run(int ranks, int threads);

  const Topology& topology_;
  const ModelFiles& model_;
  const std::vector<int> streams_;
  std::map<std::array<int, 3>, double> seconds_;  // by ranks, threads and streams
};

}  // namespace quire

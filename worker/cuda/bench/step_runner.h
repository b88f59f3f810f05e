#pragma once

#include <memory>
#include <random>
#include <vector>

#include "comm/model/model_files.h"
#include "worker/cuda/cuda_engine.h"

namespace quire::bench {

struct StepRun {
  int batch = 1, context = 1024;  // number of sequences; tokens of each before the first step
  int most_steps = 100;           // upper bound of the steps to run
  int chunk_tokens = 8192;        // prompt tokens per step
  bool logprobs = false;          // report the log-probability of each sampled token
  CudaEngineOptions engine = {};
};

/// Runs steps of an engine with greedy sampling. The prompts are random tokens, which are the same for equal arguments.
class StepRunner {
 public:
  StepRunner(const ModelFiles& files, const StepRun& run);

  /// Runs one decode step of all sequences. Returns their tokens in order of the sequences.
  std::vector<SampledToken> Run() {
    Begin();
    return Finish();
  }
  /// Returns the seconds per step over `steps` steps; each step begins before the previous one has ended.
  double Overlapped(int steps);
  /// Returns the seconds per step over `steps` steps; each step begins after the previous one has ended.
  double OneByOne(int steps);

 private:
  void Prefill(SlotId slot);
  void Start(const StepPlan& plan);
  void Begin();
  std::vector<SampledToken> Finish();

  StepRun run_;
  EngineSizes sizes_;
  std::unique_ptr<RankEngine> engine_;
  SequenceTable table_;
  std::vector<std::vector<PendingDraw>> draws_;
  int blocks_each_;
  int64_t vocab_;
  std::mt19937_64 random_{13};
};

}  // namespace quire::bench

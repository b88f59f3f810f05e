#pragma once

#include <memory>
#include <random>
#include <vector>

#include "comm/model/model_files.h"
#include "worker/cuda/cuda_engine.h"

namespace quire::bench {

struct StepRun {
  int batch = 1, context = 1024;  // sequences, and tokens that each has before the first step
  int most_steps = 100;           // that will be run
  int chunk_tokens = 8192;        // of a prompt, computed in one step
  bool logprobs = false;          // of each drawn token
  CudaEngineOptions engine = {};
};

/// An engine and greedy sequences of random tokens that run in it. The same arguments make the same sequences.
class StepRunner {
 public:
  StepRunner(const ModelFiles& files, const StepRun& run);

  /// One decode step of all sequences, from its plan to its tokens, in order of the sequences.
  std::vector<SampledToken> Run() {
    Begin();
    return Finish();
  }
  /// Seconds per step of `steps` steps, each begun before the one before it has ended.
  double Overlapped(int steps);
  /// The same, each begun when the one before it has ended.
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

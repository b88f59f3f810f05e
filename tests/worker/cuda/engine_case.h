#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "coordinator/core/engine/engine.h"
#include "tests/support/collecting_sink.h"
#include "tests/support/thread_group.h"
#include "worker/cuda/cuda_engine.h"

// Serves requests with the engines that a maker makes, and compares the answers of the CUDA engine, over an emulated
// device, with those of the CPU engine.
namespace quire::test {

/// Makes CUDA engines for the ranks of a group, and owns their collectives.
class CudaMaker {
 public:
  explicit CudaMaker(CudaEngineOptions options) : options_(std::move(options)) { options_.tune = false; }

  std::unique_ptr<RankEngine> operator()(const ModelFiles& files, const EngineSizes& sizes, Collective& host);

 private:
  CudaEngineOptions options_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<NormingCollective>> collectives_;
};

struct Setup {
  int ranks = 1;
  int num_blocks = 60, num_host_blocks = 0;
  int max_step_tokens = 48;
  int max_running = 5;
  int block_size = 16;
  int max_model_len = 400;
  PreemptionMode preemption = PreemptionMode::kRecompute;
  int state_spacing = 64;    // BlockManagerOptions
  uint32_t step_micros = 0;  // the time that each step is said to take; 0: unknown, so nothing is copied to the host
  bool expert_parallel = false;
  Quantization quantization = Quantization::kNone;  // for the CPU engine; CudaEngineOptions has the CUDA engine's
};

struct Ask {
  std::vector<TokenId> prompt;
  int max_tokens = 4;
  int n = 1;
  SamplingSpec sampling = {.temperature = 0, .num_logprobs = 5};
  int beams = 0;
};

/// The tokens that an engine sampled, and counts of how it computed them.
struct Answers {
  std::vector<CollectingSink> sinks;
  int64_t preemptions = 0;
  int64_t cached_tokens = 0;  // prompt tokens that came from the cache
  int64_t from_host = 0;      // blocks that came back from copies on the host
  int overlapped = 0;         // steps that ended after the next step had begun
};

/// Serves the requests, which arrive one step after another.
Answers Serve(const ModelFiles& files, const std::vector<Ask>& asks, const Setup& setup, const EngineMaker& maker);

std::vector<Ask> SomeAsks(const ModelFiles& files, uint64_t seed,
                          const std::vector<int>& lengths = {1, 37, 16, 90, 5, 70});

/// Expects equal log-probabilities up to and including the first token of a choice that differs. At that token, both
/// tokens must be about equally likely. At least the fraction `part` of all tokens must come before the first differing
/// tokens of their choices.
void ExpectAlike(const Answers& got, const Answers& want, double tolerance, double part = 0.75);

/// Compares log-probabilities of prompts. The tolerance grows for unlikely tokens, where 16-bit numbers err by more.
void ExpectAlikePrompts(const Answers& got, const Answers& want, double tolerance);

/// Compares pooled vectors. Activations are about 1, and are rounded a few times more than logits are.
void ExpectAlikePooled(const Answers& got, const Answers& want, double tolerance);

void ExpectEqualTokens(const Answers& got, const Answers& want);

}  // namespace quire::test

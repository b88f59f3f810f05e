// The CUDA engine without a GPU: its host code over an emulated device, its kernels in the SIMT emulator, against the CPU
// engine on the same random models and the same plans.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "coordinator/core/engine.h"
#include "tests/support/collecting_sink.h"
#include "tests/support/random.h"
#include "tests/support/random_model.h"
#include "tests/support/thread_group.h"
#include "worker/cuda/cuda_engine.h"
#include "worker/cuda/emulated_collective.h"

namespace quire {
namespace {

using test::CollectingSink;
using test::ModelShape;

/// Makes CUDA engines for the ranks of a group, and keeps their collectives.
class CudaMaker {
 public:
  explicit CudaMaker(CudaEngineOptions options) : options_(std::move(options)) {}

  std::unique_ptr<RankEngine> operator()(const ModelFiles& files, const EngineSizes& sizes, Collective& host) {
    DeviceCollective* collective = nullptr;
    if (host.size() > 1) {
      const std::lock_guard lock(mutex_);
      collectives_.push_back(std::make_unique<test::EmulatedCollective>(host));
      collective = collectives_.back().get();
    }
    return MakeCudaEngine(files, sizes, options_, host.rank(), collective);
  }

 private:
  CudaEngineOptions options_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<DeviceCollective>> collectives_;
};

struct Setup {
  int ranks = 1;
  int num_blocks = 60, num_host_blocks = 0;
  int max_step_tokens = 48;
  int max_running = 5;
  int block_size = 16;
  bool ahead = false;  // a step is begun before the one before it is finished
  PreemptionMode preemption = PreemptionMode::kRecompute;
};

struct Ask {
  std::vector<TokenId> prompt;
  int max_tokens = 4;
  int n = 1;
  SamplingSpec sampling = {.temperature = 0, .num_logprobs = 5};
};

/// Serves the requests, which come one after another, and returns what they drew.
std::vector<CollectingSink> Serve(const ModelFiles& files, const std::vector<Ask>& asks, const Setup& setup,
                                  const test::EngineMaker& maker) {
  const int max_model_len = 400;
  test::ThreadGroup group(files,
                          {setup.block_size, setup.max_step_tokens, setup.max_running, max_model_len, 1,
                           std::vector<double>(static_cast<size_t>(setup.ranks), 1.0)},
                          setup.num_blocks, setup.num_host_blocks > 0 ? setup.num_host_blocks + 1 : 0, maker);
  EngineOptions options;
  options.scheduler.max_step_tokens = setup.max_step_tokens;
  options.scheduler.max_running = setup.max_running;
  options.scheduler.preemption = setup.preemption;
  options.blocks.num_blocks = setup.num_blocks;
  options.blocks.num_host_blocks = setup.num_host_blocks;
  options.blocks.block_size = setup.block_size;
  options.blocks.sliding_window = static_cast<int>(files.config().sliding_window);
  options.max_model_len = max_model_len;
  Engine engine(options);
  std::vector<CollectingSink> sinks(asks.size());
  for (size_t next = 0; next < asks.size() || !engine.idle();) {
    if (next < asks.size()) {
      const Ask& ask = asks[next];
      auto request =
          test::MakeRequest(next + 1, ask.prompt, ask.max_tokens, sinks[next], ask.n, ask.sampling);
      EXPECT_EQ(engine.Submit(std::move(request)), std::nullopt);
      ++next;
    }
    if (const StepPlan* plan = engine.NextPlan(0)) engine.CommitStep(group.Run(*plan));
  }
  return sinks;
}

std::vector<Ask> SomeAsks(const ModelFiles& files, uint64_t seed) {
  test::Random random(seed);
  std::vector<Ask> asks;
  for (const int length : {1, 37, 16, 90, 5, 70}) {
    Ask ask;
    for (int i = 0; i < length; ++i) ask.prompt.push_back(static_cast<TokenId>(random.Below(files.config().vocab_size)));
    asks.push_back(std::move(ask));
  }
  return asks;
}

/// Tokens are equal, or the first that differs was as likely within the tolerance; log-probabilities agree up to there.
void ExpectAlike(const std::vector<CollectingSink>& got, const std::vector<CollectingSink>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  int compared = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].error, "");
    for (const auto& [index, choice] : want[i].choices) {
      const auto& mine = got[i].choices.at(index);
      ASSERT_EQ(mine.tokens.size(), choice.tokens.size());
      for (size_t t = 0; t < choice.tokens.size(); ++t, ++compared) {
        ASSERT_NEAR(mine.logprobs[t], choice.logprobs[t], tolerance) << "request " << i << ", token " << t;
        if (mine.tokens[t] != choice.tokens[t]) break;
      }
    }
  }
  EXPECT_GT(compared, static_cast<int>(got.size()));
}

TEST(CudaEngineTest, EqualsTheCpuEngine) {
  const test::RandomModel model(ModelShape{}, 1);
  const ModelFiles files = ModelFiles::Open(model.path());
  const auto asks = SomeAsks(files, 2);
  const auto want = Serve(files, asks, {}, MakeCpuEngine);
  CudaMaker maker({.dtype = kernels::DType::kBF16, .tune = false});
  ExpectAlike(Serve(files, asks, {}, std::ref(maker)), want, 0.05);
}

}  // namespace
}  // namespace quire

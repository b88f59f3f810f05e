#pragma once

#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "comm/collective/shared_memory.h"
#include "comm/error.h"
#include "worker/step_executor.h"

namespace quire::test {

/// A whole worker group as threads of this process: the real executors, collectives and frames, without mpirun and
/// sockets.
class ThreadGroup {
 public:
  ThreadGroup(const ModelFiles& files, ExecutorOptions options, int num_blocks, int num_host_blocks = 0)
      : collectives_(MakeThreadCollectives(static_cast<int>(options.shares.size()))), ranks_(collectives_.size()) {
    OnAllRanks([&](size_t rank) {
      ranks_[rank] = std::make_unique<StepExecutor>(files, options, *collectives_[rank]);
      ranks_[rank]->AllocateBlocks(num_blocks, num_host_blocks);
    });
  }

  /// Runs the plan on every rank; checks that all ranks drew the same tokens and returns rank 0's.
  std::vector<SampledToken> Run(const StepPlan& plan) {
    const Frame frame = EncodePlan(plan);
    std::vector<StepResult> results(ranks_.size());
    OnAllRanks([&](size_t rank) { results[rank] = ranks_[rank]->Execute(frame); });
    for (const StepResult& result : results) {
      QUIRE_CHECK(result.plan_hash == frame.header.body_hash && result.step == plan.step, "step {}", result.step);
      QUIRE_CHECK(result.token_hash == results[0].token_hash, "rank {} drew other tokens", result.rank);
    }
    return results[0].tokens;
  }

 private:
  template <class F>
  void OnAllRanks(F body) {
    std::vector<std::exception_ptr> errors(ranks_.size());
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      threads.emplace_back([&, rank] {
        try {
          body(rank);
        } catch (...) {
          errors[rank] = std::current_exception();
          collectives_[rank]->Abort();
        }
      });
    }
    for (auto& thread : threads) thread.join();
    for (const auto& error : errors) {
      if (error) std::rethrow_exception(error);
    }
  }

  std::vector<std::unique_ptr<Collective>> collectives_;
  std::vector<std::unique_ptr<StepExecutor>> ranks_;
};

}  // namespace quire::test

#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "comm/collective/shared_memory.h"
#include "comm/error.h"
#include "comm/model/model_files.h"
#include "tests/support/rank_threads.h"
#include "worker/cpu/cpu_engine.h"
#include "worker/step_executor.h"

namespace quire::test {

/// Makes the engine of one rank, on the rank's thread.
using EngineMaker = std::function<std::unique_ptr<RankEngine>(const ModelFiles&, const EngineSizes&, Collective&)>;

/// A whole worker group as threads of this process: the real executors, collectives and frames, without mpirun and
/// sockets.
class ThreadGroup {
 public:
  ThreadGroup(const ModelFiles& files, const EngineSizes& sizes, int num_blocks, int num_host_blocks = 0,
              const EngineMaker& make_engine = MakeCpuEngine)
      : collectives_(MakeThreadCollectives(static_cast<int>(sizes.shares.size()))),
        ranks_(collectives_.size()),
        threads_(collectives_.size()) {
    OnAllRanks([&](size_t rank) {
      ranks_[rank] = std::make_unique<StepExecutor>(files.config(), sizes, static_cast<Rank>(rank),
                                                    make_engine(files, sizes, *collectives_[rank]));
      ranks_[rank]->AllocateBlocks(num_blocks, num_host_blocks);
    });
  }
  ~ThreadGroup() {
    OnAllRanks([&](size_t rank) { ranks_[rank].reset(); });
  }

  /// Starts the plan on every rank.
  void Begin(const StepPlan& plan) {
    const Frame frame = EncodePlan(plan);
    OnAllRanks([&](size_t rank) { ranks_[rank]->Begin(frame); });
    sent_hashes_.push_back({plan.step, frame.header.body_hash});
  }

  /// Waits for the oldest plan; checks that all ranks drew the same tokens and returns rank 0's.
  std::vector<SampledToken> Finish() {
    std::vector<StepResult> results(ranks_.size());
    OnAllRanks([&](size_t rank) { results[rank] = ranks_[rank]->Finish(); });
    for (const StepResult& result : results) {
      QUIRE_CHECK(result.plan_hash == sent_hashes_.front().second && result.step == sent_hashes_.front().first,
                  "step {}", result.step);
      QUIRE_CHECK(result.token_hash == results[0].token_hash, "rank {} drew other tokens", result.rank);
    }
    sent_hashes_.erase(sent_hashes_.begin());
    return results[0].tokens;
  }

  std::vector<SampledToken> Run(const StepPlan& plan) {
    Begin(plan);
    return Finish();
  }

  const RankEngine& engine(size_t rank) const { return ranks_[rank]->engine(); }

 private:
  template <class F>
  void OnAllRanks(F body) {
    threads_.Run(body, [this](size_t rank) { collectives_[rank]->Abort(); });
  }

  std::vector<std::unique_ptr<Collective>> collectives_;
  std::vector<std::unique_ptr<StepExecutor>> ranks_;
  std::vector<std::pair<StepId, uint64_t>> sent_hashes_;
  RankThreads threads_;
};

}  // namespace quire::test

#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "comm/base/error.h"
#include "comm/model/model_files.h"
#include "tests/support/rank_threads.h"
#include "tests/support/thread_collectives.h"
#include "worker/cpu/cpu_engine.h"
#include "worker/serve/step_executor.h"

namespace quire::test {

/// Makes the engine of one rank. The rank's thread calls it.
using EngineMaker = std::function<std::unique_ptr<RankEngine>(const ModelFiles&, const EngineSizes&, Collective&)>;

/// A whole worker group as threads of this process. Executors, collectives and frames are real; there are no mpirun and
/// no sockets. A pipeline runs on the CPU engine.
class ThreadGroup {
 public:
  ThreadGroup(const ModelFiles& files, const EngineSizes& sizes, int num_blocks, int num_host_blocks = 0,
              const EngineMaker& make_engine = MakeCpuEngine)
      : peers_(MakeThreadPeers(sizes.cut())),
        ranks_(peers_.size()),
        num_accepted_(peers_.size()),
        threads_(peers_.size()) {
    std::vector<int> blocks_of_rank(ranks_.size());
    OnAllRanks([&](size_t rank) {
      const ThreadPeers& peers = peers_[rank];
      auto engine = peers.link == nullptr ? make_engine(files, sizes, *peers.stage)
                                          : MakeCpuStageEngine(files, sizes, *peers.stage, *peers.link);
      blocks_of_rank[rank] =
          static_cast<int>((engine->state_bytes() + engine->block_bytes() - 1) / engine->block_bytes());
      ranks_[rank] = std::make_unique<StepExecutor>(files.spec(), sizes, static_cast<Rank>(rank), std::move(engine));
    });
    state_blocks_ = std::ranges::max(blocks_of_rank);
    OnAllRanks([&](size_t rank) { ranks_[rank]->AllocateBlocks(num_blocks, num_host_blocks, state_blocks_); });
  }
  ~ThreadGroup() {
    OnAllRanks([&](size_t rank) { ranks_[rank].reset(); });
  }

  /// Returns the number of pool blocks for the state of one sequence: the largest number that a rank needs, used on
  /// every rank. 0: the model has no states.
  int state_blocks() const { return state_blocks_; }

  /// Sets the vocabulary for grammars. Call this before adding a sequence with a grammar.
  void SetVocabulary(const Vocabulary& vocabulary) {
    OnAllRanks([&](size_t rank) { ranks_[rank]->SetVocabulary(vocabulary); });
  }

  /// Gives an adapter to every rank while the group serves. `number` must be above kMostListedAdapters.
  void SetAdapter(int number, const ModelFiles& base, const AdapterFiles& adapter) {
    OnAllRanks(
        [&](size_t rank) { ranks_[rank]->SetAdapter(number, ranks_[rank]->engine().ReadAdapter(base, adapter)); });
  }

  /// Sends the plan to every rank.
  void Send(const StepPlan& plan) { plans_.push_back(EncodePlan(plan)); }

  /// Lets each rank begin sent plans as far as its engine can, as a worker does, and finish the oldest step. Checks
  /// that all ranks sampled the same tokens, and returns the tokens of rank 0.
  std::vector<SampledToken> Await() {
    std::vector<StepResult> results(ranks_.size());
    std::atomic<bool> overlaps = false;
    OnAllRanks([&](size_t rank) {
      StepExecutor& executor = *ranks_[rank];
      do {
        if (executor.can_accept() && num_accepted_[rank] < plans_.size())
          executor.Accept(plans_[num_accepted_[rank]++]);
        if (!executor.can_begin()) break;
        executor.Begin();
      } while (true);
      if (executor.num_in_flight() > 1) overlaps = true;
      results[rank] = executor.Finish();
      --num_accepted_[rank];
    });
    num_overlapped_ += overlaps;
    const FrameHeader plan = plans_.front().header;
    plans_.pop_front();
    for (const StepResult& result : results) {
      QUIRE_CHECK(result.plan_hash == plan.body_hash && result.step == plan.step, "step {}", result.step);
      QUIRE_CHECK(result.token_hash == results[0].token_hash, "rank {} drew other tokens", result.rank);
    }
    scores_ = std::move(results[0].scores);
    guesses_ = std::move(results[0].guesses);
    for (size_t rank = 1; rank < results.size(); ++rank)
      QUIRE_CHECK(results[rank].guesses.empty(), "rank {} guesses", rank);
    return results[0].tokens;
  }

  std::vector<SampledToken> Run(const StepPlan& plan) {
    Send(plan);
    return Await();
  }

  /// Returns the log-probabilities of prompts from the last awaited step.
  const std::vector<PromptScores>& scores() const { return scores_; }

  /// Returns the draft model's drafts after the last awaited step.
  const std::vector<Draft>& guesses() const { return guesses_; }

  /// Returns the number of steps that finished after a rank had begun the next step.
  int num_overlapped() const { return num_overlapped_; }

 private:
  template <class F>
  void OnAllRanks(F body) {
    threads_.Run(body, [this](size_t rank) { peers_[rank].Abort(); });
  }

  std::vector<ThreadPeers> peers_;
  std::vector<std::unique_ptr<StepExecutor>> ranks_;
  std::deque<Frame> plans_;           // plans that were sent and not awaited
  std::vector<size_t> num_accepted_;  // for each rank, the number of plans in plans_ that it has accepted
  std::vector<PromptScores> scores_;
  std::vector<Draft> guesses_;
  int num_overlapped_ = 0;
  RankThreads threads_;
  int state_blocks_ = 0;
};

}  // namespace quire::test

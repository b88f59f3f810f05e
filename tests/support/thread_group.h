#pragma once

#include <algorithm>
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

/// Makes the engine of one rank. Called on the rank's thread.
using EngineMaker = std::function<std::unique_ptr<RankEngine>(const ModelFiles&, const EngineSizes&, Collective&)>;

/// A whole worker group as threads of this process. Executors, collectives and frames are real; mpirun and sockets are
/// absent. A pipeline runs on the CPU engine.
class ThreadGroup {
 public:
  ThreadGroup(const ModelFiles& files, const EngineSizes& sizes, int num_blocks, int num_host_blocks = 0,
              const EngineMaker& make_engine = MakeCpuEngine)
      : peers_(MakeThreadPeers(sizes.cut())), ranks_(peers_.size()), threads_(peers_.size()) {
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

  /// Returns the blocks that hold a sequence's state on every rank; 0: the model has no states.
  int state_blocks() const { return state_blocks_; }

  /// Sets the vocabulary for grammars. Call this before adding a sequence with a grammar.
  void SetVocabulary(const Vocabulary& vocabulary) {
    OnAllRanks([&](size_t rank) { ranks_[rank]->SetVocabulary(vocabulary); });
  }

  /// Gives an adapter to every rank while it serves, under a number above kMostListedAdapters.
  void SetAdapter(int number, const ModelFiles& base, const AdapterFiles& adapter) {
    OnAllRanks([&](size_t rank) {
      ranks_[rank]->SetAdapter(number, ranks_[rank]->engine().ReadAdapter(base, adapter));
    });
  }

  /// Queues the plan for every rank.
  void Send(const StepPlan& plan) { queue_.push_back(EncodePlan(plan)); }

  /// Begins queued plans as far as the engines can, as a worker does, and finishes the oldest step. Checks that all
  /// ranks sampled the same tokens, and returns those of rank 0.
  std::vector<SampledToken> Await() {
    for (; !queue_.empty() && ranks_[0]->can_begin(); queue_.pop_front()) {
      begun_.push_back(queue_.front().header);
      OnAllRanks([&](size_t rank) { ranks_[rank]->Begin(queue_.front()); });
    }
    if (begun_.size() > 1) ++num_overlapped_;
    std::vector<StepResult> results(ranks_.size());
    OnAllRanks([&](size_t rank) { results[rank] = ranks_[rank]->Finish(); });
    const FrameHeader plan = begun_.front();
    begun_.pop_front();
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

  /// Returns what the draft model guessed after the last awaited step.
  const std::vector<Draft>& guesses() const { return guesses_; }

  /// Returns the number of steps that finished after the next step had begun.
  int num_overlapped() const { return num_overlapped_; }

 private:
  template <class F>
  void OnAllRanks(F body) {
    threads_.Run(body, [this](size_t rank) { peers_[rank].Abort(); });
  }

  std::vector<ThreadPeers> peers_;
  std::vector<std::unique_ptr<StepExecutor>> ranks_;
  std::deque<Frame> queue_;
  std::deque<FrameHeader> begun_;
  std::vector<PromptScores> scores_;
  std::vector<Draft> guesses_;
  int num_overlapped_ = 0;
  RankThreads threads_;
  int state_blocks_ = 0;
};

}  // namespace quire::test

#pragma once

#include <array>
#include <vector>

#include "coordinator/core/request.h"

namespace quire {

/// A sequence's part in a step: tokens [start, start + count) are computed, and one more is drawn after the last known.
struct StepMember {
  Request* request;  // null, like sequence, once the sequence has left: whatever the step says of the slot is dropped
  Sequence* sequence;
  SlotId slot;
  int start;
  int count;
  bool draws;
  ScoredRows scores = {};  // of the prompt
};

/// A step of which the result is not in.
struct OutstandingStep {
  std::vector<StepMember> members;   // in batch order
  std::vector<BlockHash> computing;  // full blocks of known tokens that it works on
  int num_moved_blocks = 0;          // to and from the host

  int num_tokens() const;
  /// Tokens, and rows that score some: what was charged to the step.
  int cost() const;
  /// Tokens that come before each computed one in its sequence, in the mean.
  double mean_context() const;
  void Clear();
};

/// The steps that were planned and not committed, oldest first, and the one that is being planned. Workers run steps in
/// the order of their plans, so a step may build on all that came before it, whether its result is in or not.
class OutstandingSteps {
 public:
  static constexpr int kMost = 2;

  int size() const { return size_; }
  const OutstandingStep& at(int index) const { return steps_[static_cast<size_t>(index)]; }
  OutstandingStep& oldest() { return steps_.front(); }
  /// The one that is being planned. There is room for it: size() < kMost.
  OutstandingStep& making() { return steps_[static_cast<size_t>(size_)]; }

  /// The step that was made is under way: its members have tokens in flight from now on.
  void Launch();
  /// The oldest step's result was taken over.
  void Retire();
  /// The sequence leaves the workers: nothing of it is in flight any more.
  void Forget(Sequence& sequence);
  /// No result will come, because the workers are lost: counted for every request that they were computing.
  void Lose();

  /// True when an outstanding step, or the one being planned, computes a block of this content.
  bool Compute(const BlockHash& hash) const;

  /// From a snapshot: one more step.
  OutstandingStep& Restore();

 private:
  std::array<OutstandingStep, kMost> steps_;  // those from size_ on are empty and keep their memory
  int size_ = 0;
};

}  // namespace quire

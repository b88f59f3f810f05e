#pragma once

#include <vector>

#include "coordinator/core/request.h"

namespace quire {

/// One sequence's part in a step: tokens [start, start + count) are computed, and if `draws` is true, a new token is
/// sampled after them. The last drafts.size() of the computed tokens are draft tokens. The number of tokens that the
/// sequence gains follows from their verification; until then the sequence counts as gaining one token. If the member
/// computes a slice, the tokens are the whole prompt when the slice completes its pass, and none otherwise.
struct StepMember {
  Request* request;  // null, like `sequence`, once the sequence has left; results for the slot are then dropped
  Sequence* sequence;
  SlotId slot;
  int start;
  int count;
  bool draws;
  ScoredRows scores = {};  // prompt rows to score
  std::vector<TokenId> drafts = {};
  DraftSource source = DraftSource::kText;  // source of the drafts
  int guess = 0;                            // number of tokens that the step orders from the draft model; 0: none
  Slice slice = {};

  /// True for a decode: the step computes one known token and samples the next. A single row of a pooled prompt counts
  /// as a chunk, because some workers do not store the rows of decodes for pooling. Requires `request`.
  bool IsDecode() const { return draws && num_known() == 1 && request->sampling.pooling == Pooling::kNone; }
  /// Returns the number of computed tokens without the drafts.
  int num_known() const { return count - static_cast<int>(drafts.size()); }
};

/// A step whose result has not arrived.
struct OutstandingStep {
  std::vector<StepMember> members;   // members in batch order
  std::vector<BlockHash> computing;  // hashes of the full blocks of known tokens that the step computes
  int num_moved_blocks = 0;          // blocks moved between device and host

  int num_tokens() const;
  int num_known() const;  // number of computed tokens without the drafts
  /// Returns the work of the step: its tokens, plus its scored rows except the first of each member. A slice counts as
  /// its part of the prompt's tokens (Slice::equivalent).
  double cost() const;
  /// Returns how many tokens precede a computed token in its sequence, as a mean over the step's tokens.
  double mean_context() const;
  bool HasDrafts() const;
  bool OrdersGuesses() const;
  void Clear();
};

/// The planned steps without a committed result, oldest first, and the step being planned. Workers run steps in the
/// order of the plans, so a step may build on earlier steps whose results have not arrived.
class OutstandingSteps {
 public:
  /// `most`: how many steps may be outstanding.
  explicit OutstandingSteps(int most) : steps_(static_cast<size_t>(most)) {}

  int most() const { return static_cast<int>(steps_.size()); }
  /// Changes how many steps may be outstanding. Requires that no step is outstanding now.
  void SetMost(int most);
  int size() const { return size_; }
  const OutstandingStep& at(int index) const { return steps_[static_cast<size_t>(index)]; }
  OutstandingStep& oldest() { return steps_.front(); }
  /// Returns the step being planned. Requires size() < most().
  OutstandingStep& making() { return steps_[static_cast<size_t>(size_)]; }

  /// Marks the planned step as sent. Its members' tokens are in flight from now on.
  void Launch();
  /// Forgets the oldest step, whose result has been committed.
  void Retire();
  /// Removes a sequence from all steps, because it left the workers. None of its tokens is in flight afterwards.
  void Forget(Sequence& sequence);
  /// Forgets all steps, because the workers are lost, and counts the loss for every request that these steps compute.
  void Lose();

  /// True when an outstanding step or the step being planned computes a block with this hash.
  bool Compute(const BlockHash& hash) const;

  /// Returns the number of the sequence's drafted tokens in outstanding steps.
  int DraftsOf(const Sequence& sequence) const;

  /// Adds an empty outstanding step and returns it. Used while a snapshot is loaded.
  OutstandingStep& Restore();

 private:
  std::vector<OutstandingStep> steps_;  // entries from size_ on are empty steps, whose memory later steps use again
  int size_ = 0;
};

}  // namespace quire

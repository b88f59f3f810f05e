#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "comm/wire/step_plan.h"
#include "worker/engine/token_constraint.h"

namespace quire {

/// In place of a token that a step under way draws.
inline constexpr TokenId kPendingToken = -1;

/// What a worker knows of a running sequence; a mirror of the coordinator's.
struct SequenceState {
  std::vector<TokenId> tokens;
  int num_prompt_tokens = 0;
  int num_computed = 0;
  std::vector<BlockId> blocks;
  SamplingSpec sampling;
  uint64_t serial = 0;                          // tells apart the sequences that a slot has held
  std::shared_ptr<TokenConstraint> constraint;  // null: any token may be drawn
  int num_scored = 0;                           // rows of the prompt that were scored when it was added
  std::vector<BlockId> state;                   // where its state is; the one before any token is zeros, unwritten
};

/// The batch member `slot` computes tokens [start, start + count), and draws one when that reaches its last token. Of
/// its prompt it scores the rows `scores`, which are among those.
struct BatchMember {
  SlotId slot;
  int start;
  int count;
  bool draws;
  ScoredRows scores = {};
};

/// A token that a step will draw: it goes to `position` of the sequence that was in `slot` then.
struct PendingDraw {
  SlotId slot;
  uint64_t serial;
  size_t position;
};

/// The running sequences by slot. Plans change it; a plan that does not follow from what is known throws Error, because
/// a worker out of step must never compute.
class SequenceTable {
 public:
  SequenceTable(int max_running, int block_size, int max_model_len);

  /// Makes what a sequence with a grammar is drawn by. The second is how many generated tokens it comes with, the third
  /// how many sequences have one then. Unset: no sequence may have one.
  std::function<std::shared_ptr<TokenConstraint>(const GrammarSource&, size_t, size_t)> constrain;

  /// Applies the plan's releases, additions, branches and table changes, and returns the batch in plan order.
  std::vector<BatchMember> Apply(const StepPlan& plan);

  /// The batch will be computed: counts advance, and members that draw have a pending token from now on.
  std::vector<PendingDraw> Advance(const std::vector<BatchMember>& batch);
  /// The tokens are drawn, one for each. Sequences that are gone, or whose token a branch replaced, are passed over.
  void Resolve(const std::vector<PendingDraw>& draws, const std::vector<SampledToken>& tokens);

  bool Has(SlotId slot) const { return slots_[slot].has_value(); }
  const SequenceState& at(SlotId slot) const { return *slots_[slot]; }
  int num_sequences() const;

 private:
  SequenceState& Known(SlotId slot);
  void Branch(const quire::Branch& branch);
  void Edit(const TableEdit& edit);
  BatchMember Member(SlotId slot, int start, int count);

  std::vector<std::optional<SequenceState>> slots_;
  int block_size_;
  int max_model_len_;
  uint64_t last_serial_ = 0;
};

}  // namespace quire

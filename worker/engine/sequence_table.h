#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/wire/step_plan.h"
#include "worker/engine/batch_member.h"
#include "worker/engine/token_constraint.h"

namespace quire {

/// Stands in a sequence for a token that a step in flight will sample.
inline constexpr TokenId kPendingToken = -1;

/// A worker's view of one running sequence, a mirror of the coordinator's.
struct SequenceState {
  std::vector<TokenId> tokens;
  int num_prompt_tokens = 0;
  int num_computed = 0;
  std::vector<BlockId> blocks;
  SamplingSpec sampling;
  uint64_t serial = 0;                          // distinguishes the sequences that have used the same slot over time
  std::shared_ptr<TokenConstraint> constraint;  // the grammar's constraint; null: every token is allowed
  int num_scored = 0;                           // prompt rows already scored when the sequence was added
  std::vector<BlockId> state;                   // blocks of the recurrent state; unwritten before the first token
  int adapter = 0;                              // number of its LoRA adapter; 0: none
  /// True while the last tokens are draft tokens and the step that verifies them is in flight. No later step may
  /// compute the sequence.
  bool unverified = false;
  int64_t num_passed = 0;  // units of the sequence's pass that slices have computed (Slice); 0: no pass has begun
};

/// The running sequences by slot. Step plans change the table. Apply throws Error for a plan that contradicts the
/// table, because a worker out of step must not compute.
class SequenceTable {
 public:
  SequenceTable(int max_running, int block_size, int max_model_len);

  /// Makes the constraint of a sequence with a grammar. Arguments: the grammar, the number of generated tokens that
  /// the sequence already has, and the number of sequences with a grammar, the new one included. If this function is
  /// unset, a sequence with a grammar is an Error.
  std::function<std::shared_ptr<TokenConstraint>(const GrammarSource&, size_t, size_t)> constrain;

  /// Applies the plan's releases, additions, branches, block table edits and states, and returns the batch in plan
  /// order.
  std::vector<BatchMember> Apply(const StepPlan& plan);

  /// Advances the counts of computed tokens for a batch that has begun. Each member that samples gets a pending token.
  std::vector<PendingDraw> Advance(const std::vector<BatchMember>& batch);
  /// Replaces pending tokens by the sampled ones; `tokens` has the verified tokens of each PendingDraw. From a sequence
  /// with drafts, removes the tokens that were not accepted and the table entries beyond its last token. Skips a
  /// sequence that was released meanwhile, and a sequence in which a branch replaced the pending token.
  void Resolve(const std::vector<PendingDraw>& draws, const std::vector<SampledToken>& tokens);

  /// Removes the sampled tokens that verification rejects. Before: `drawn` has the tokens of all rows of a batch that
  /// has not advanced, in batch order. After: `drawn` has, for each member that samples, only the first CountVerified
  /// tokens.
  void KeepVerified(const std::vector<BatchMember>& batch, std::vector<SampledToken>& drawn) const;

  bool Has(SlotId slot) const { return slots_[slot].has_value(); }
  const SequenceState& at(SlotId slot) const { return *slots_[slot]; }
  int num_sequences() const;

 private:
  SequenceState& Known(SlotId slot);
  void Branch(const quire::Branch& branch);
  void Edit(const TableEdit& edit);
  BatchMember Member(SlotId slot, int start, int count);
  BatchMember Member(const Draft& draft);
  BatchMember Member(const Slice& slice);
  void Verified(const PendingDraw& draw, std::span<const SampledToken> tokens);

  std::vector<std::optional<SequenceState>> slots_;
  int block_size_;
  int max_model_len_;
  uint64_t last_serial_ = 0;
};

}  // namespace quire

#pragma once

#include <optional>
#include <vector>

#include "comm/step_plan.h"

namespace quire {

/// What a worker knows of a running sequence; a mirror of the coordinator's.
struct SequenceState {
  std::vector<TokenId> tokens;
  int num_prompt_tokens = 0;
  int num_computed = 0;
  std::vector<BlockId> blocks;
  SamplingSpec sampling;
};

/// The batch member `slot` computes tokens [start, start + count), and draws one when that reaches its last token.
struct BatchMember {
  SlotId slot;
  int start;
  int count;
  bool draws;
};

/// The running sequences by slot. Plans change it; a plan that does not follow from what is known throws Error, because
/// a worker out of step must never compute.
class SequenceTable {
 public:
  SequenceTable(int max_running, int block_size, int max_model_len);

  /// Applies the plan's releases, additions, branches and table changes, and returns the batch in plan order.
  std::vector<BatchMember> Apply(const StepPlan& plan);

  /// The batch was computed: counts advance.
  void Advance(const std::vector<BatchMember>& batch);
  /// The token drawn for a member.
  void Append(SlotId slot, TokenId token);

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
};

}  // namespace quire

#pragma once

#include <functional>
#include <map>
#include <span>
#include <vector>

#include "worker/engine/sequence_table.h"

namespace quire {

/// Returns the rows of the prompt that are pooled, among those of a step that computes tokens [start, start + count).
ScoredRows RowsToPool(Pooling pooling, int num_prompt_tokens, int start, int count);

/// Pools the last activations of a prompt into one vector, chunk by chunk, or collects the numbers of every token. Sums
/// are doubles and follow the order of the tokens, so the result does not depend on how the prompt was cut. Only the
/// rank that reports the vector needs a Pooler: activations are equal on all ranks.
class Pooler {
 public:
  explicit Pooler(int64_t hidden) : hidden_(static_cast<size_t>(hidden)) {}

  /// Returns the step's rows [row, row + count), count <= kPooledAtOnce: the normed last activations [count, hidden],
  /// or, for the poolings kSparse and kColbert, the numbers computed from each row. The result is valid until the next
  /// call.
  using RowsAt = std::function<std::span<const float>(Pooling pooling, int64_t row, int64_t count)>;
  static constexpr int kPooledAtOnce = 32;

  /// Adds the batch's rows of prompts that are pooled. Stores the vector of each completed prompt in the member's entry
  /// of `tokens`. A vector with non-finite numbers marks its token as broken. `table` may be the state before or after
  /// the step. Throws Error for rows that do not follow the previous ones.
  void Pool(const RowsAt& rows_at, const std::vector<BatchMember>& batch, const SequenceTable& table,
            std::vector<SampledToken>& tokens);

 private:
  /// The running sum for the sequence with number `serial` in a slot.
  struct Sum {
    uint64_t serial = 0;
    int num_rows = 0;
    std::vector<double> values;  // [hidden]
    std::vector<float> rows;     // the numbers of every token, instead of `values` (PoolsEachToken)
  };
  void Add(const RowsAt& rows_at, Pooling pooling, int64_t row, int64_t count, Sum& sum) const;

  size_t hidden_;
  std::map<SlotId, Sum> sums_;  // the sums of incomplete prompts, at most one in each slot
};

/// Returns token 0 for every row after which a token would be sampled, in models that only pool. No caller uses the
/// tokens.
std::vector<SampledToken> WithoutDraws(const std::vector<BatchMember>& batch);

/// True if some of the member's rows are pooled.
bool PoolsRows(const BatchMember& member, const SequenceState& sequence);

}  // namespace quire

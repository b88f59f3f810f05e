#pragma once

#include <functional>
#include <map>
#include <span>
#include <vector>

#include "worker/engine/sequence_table.h"

namespace quire {

/// The rows of computing tokens [start, start + count) of a sequence that go into what is pooled of its prompt.
ScoredRows RowsToPool(Pooling pooling, int num_prompt_tokens, int start, int count);

/// Makes one vector of the last activations of a prompt, chunk by chunk, as Pooling says. Sums are of doubles and in
/// the order of the tokens, so that they do not depend on how a prompt was cut. Only the rank that tells the result
/// needs one: activations are the same on all.
class Pooler {
 public:
  explicit Pooler(int64_t hidden) : hidden_(static_cast<size_t>(hidden)) {}

  /// `count` rows of the step's normed last activations from row `row` on, at most kPooledAtOnce: [count, hidden],
  /// valid until the next call.
  using RowsAt = std::function<std::span<const float>(int64_t row, int64_t count)>;
  static constexpr int kPooledAtOnce = 32;

  /// Takes what the batch computes of prompts that are pooled, and gives the vectors of those that are complete to the
  /// `tokens` of the batch's members that draw. A vector that is no numbers marks its token as broken. `table` is as
  /// it was before the batch was computed, or after. Throws Error for rows that do not follow those that were seen.
  void Pool(const RowsAt& rows_at, const std::vector<BatchMember>& batch, const SequenceTable& table,
            std::vector<SampledToken>& tokens);

 private:
  /// Of the prompt that a slot held under that serial number.
  struct Sum {
    uint64_t serial = 0;
    int num_rows = 0;
    std::vector<double> values;  // [hidden]
  };
  void Add(const RowsAt& rows_at, int64_t row, int64_t count, Sum& sum) const;

  size_t hidden_;
  std::map<SlotId, Sum> sums_;  // of prompts that are not complete; of a slot no more than one
};

/// Whether some of the batch's rows go into what is pooled.
bool PoolsRows(const BatchMember& member, const SequenceState& sequence);

}  // namespace quire

#pragma once

#include <span>
#include <vector>

#include "comm/collective/collective.h"
#include "worker/sequence_table.h"
#include "worker/shard.h"

namespace quire {

/// Draws the step's tokens from vocabulary-parallel logits. Every rank gathers the same candidates and does the same
/// arithmetic with counter-based random numbers, so all ranks draw the same tokens without telling each other.
class Sampler {
 public:
  Sampler(std::vector<Range> vocab_of_rank, Collective& collective);

  /// logits: [R, local vocab], one row per drawing member of the batch, in batch order. Collective call.
  std::vector<SampledToken> Draw(std::span<const float> logits, const std::vector<BatchMember>& batch,
                                 const SequenceTable& table);

 private:
  /// The highest logit of every row over all ranks: enough for rows that are greedy and ask for nothing else.
  void DrawGreedy(std::span<const float> logits, const std::vector<size_t>& rows, std::vector<SampledToken>& out);
  /// Whole rows: [rows.size(), vocab].
  std::vector<float> GatherRows(std::span<const float> logits, const std::vector<size_t>& rows);

  std::vector<Range> vocab_of_rank_;
  int64_t vocab_size_;
  Collective& collective_;
};

}  // namespace quire

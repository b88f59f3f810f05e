#pragma once

#include <span>
#include <vector>

#include "comm/collective/collective.h"
#include "worker/sequence_table.h"
#include "worker/shard.h"

namespace quire {

/// Draws the step's tokens from vocabulary-parallel logits. Of greedy rows every rank gathers the same candidates; the
/// others are dealt out to the ranks, who tell each other what they drew: so all ranks have the same tokens.
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
  /// Rank r has drawn rows r, r + ranks, ... of `rows`; afterwards `out` holds what all have.
  void ShareDrawn(const std::vector<size_t>& rows, const SequenceTable& table, std::vector<SampledToken>& out);

  std::vector<Range> vocab_of_rank_;
  int64_t vocab_size_;
  Collective& collective_;
};

}  // namespace quire

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "comm/collective/collective.h"
#include "kernels/sampling.h"
#include "worker/engine/sequence_table.h"
#include "worker/model/shard.h"

namespace quire {

/// Draws the step's tokens from vocabulary-parallel logits, and scores prompts by them. Of greedy rows every rank
/// gathers the same candidates; what their grammars allow, and the other rows as a whole, are dealt out to the ranks,
/// who tell each other what came of them: so all ranks have the same. Not to be used by two threads at once.
class Sampler {
 public:
  Sampler(std::vector<Range> vocab_of_rank, Collective& collective);

  /// logits: [R, local vocab], one row per drawing member of the batch, in batch order; scratch afterwards. Collective
  /// call.
  std::vector<SampledToken> Draw(std::span<float> logits, const std::vector<BatchMember>& batch,
                                 const SequenceTable& table);

  /// Logits of `count` rows of the step's tokens from `row` on, at most kScoredAtOnce: [count, local vocab], valid
  /// until the next call.
  using LogitsOfRows = std::function<std::span<float>(int64_t row, int64_t count)>;
  /// The scores of the batch's prompts, a few rows at a time. Collective call.
  std::vector<PromptScores> Score(const LogitsOfRows& logits_of, const std::vector<BatchMember>& batch,
                                  const SequenceTable& table);

 private:
  using Records = std::vector<kernels::Candidate>;
  /// The highest logit of every row over all ranks: enough for rows that are greedy and ask for nothing else.
  void DrawGreedy(std::span<const float> logits, const std::vector<size_t>& rows, std::vector<SampledToken>& out);
  /// Leaves of the rows what their grammars allow. Returns those that can be drawn from; the others have their mark.
  std::vector<size_t> Mask(std::span<float> logits, const std::vector<size_t>& rows, const SequenceTable& table,
                           std::vector<SampledToken>& out);
  /// Every rank gets the rows that are dealt to it whole.
  void Deal(std::span<const float> logits, const std::vector<size_t>& rows);
  /// After Deal, of what was dealt: rows[i], which went to this rank. Good until the next call.
  std::span<float> DealtRow(std::span<float> logits, const std::vector<size_t>& rows, size_t i);
  // Of any rows the ranks are dealt one after another: rank r has rows r, r + ranks, ...
  size_t num_ranks() const { return static_cast<size_t>(collective_.size()); }
  size_t rank() const { return static_cast<size_t>(collective_.rank()); }
  size_t NumDealt(size_t num_rows, size_t rank) const { return (num_rows + num_ranks() - 1 - rank) / num_ranks(); }
  /// Rank r has drawn rows r, r + ranks, ... of `rows`; afterwards `out` holds what all have.
  void ShareDrawn(const std::vector<size_t>& rows, const SequenceTable& table, std::vector<SampledToken>& out);
  /// Rank r has scored rows r, r + ranks, ...; `mine` holds those, afterwards `scores` those of all.
  void ShareScored(int num_rows, const PromptScores& mine, PromptScores& scores);
  /// Records of all rows, one after another, from those of this rank's rows; row i has sizes[i] entries.
  Records Share(const std::vector<size_t>& sizes, const Records& mine);

  std::vector<Range> vocab_of_rank_;
  int64_t vocab_size_;
  Collective& collective_;
  // Kept from step to step: megabytes that are given back and asked for again cost more than what is done in them.
  std::vector<float> outgoing_, incoming_, row_;
  std::vector<uint32_t> masks_, masks_dealt_;
};

}  // namespace quire

#pragma once

#include <functional>
#include <span>
#include <vector>

#include "comm/collective/collective.h"
#include "kernels/sampling.h"
#include "worker/engine/sequence_table.h"
#include "worker/model/shard.h"

namespace quire {

/// Draws the step's tokens from vocabulary-parallel logits, and scores prompts by them. Of greedy rows every rank
/// gathers the same candidates; the others are dealt out to the ranks, who tell each other what came of them: so all
/// ranks have the same.
class Sampler {
 public:
  Sampler(std::vector<Range> vocab_of_rank, Collective& collective);

  /// logits: [R, local vocab], one row per drawing member of the batch, in batch order. Collective call.
  std::vector<SampledToken> Draw(std::span<const float> logits, const std::vector<BatchMember>& batch,
                                 const SequenceTable& table);

  /// Logits of `count` rows of the step's tokens from `row` on, at most kScoredAtOnce: [count, local vocab], valid
  /// until the next call.
  using LogitsOfRows = std::function<std::span<const float>(int64_t row, int64_t count)>;
  /// The scores of the batch's prompts, a few rows at a time. Collective call.
  std::vector<PromptScores> Score(const LogitsOfRows& logits_of, const std::vector<BatchMember>& batch,
                                  const SequenceTable& table);

 private:
  using Records = std::vector<kernels::Candidate>;
  /// The highest logit of every row over all ranks: enough for rows that are greedy and ask for nothing else.
  void DrawGreedy(std::span<const float> logits, const std::vector<size_t>& rows, std::vector<SampledToken>& out);
  /// Whole rows: [rows.size(), vocab].
  std::vector<float> GatherRows(std::span<const float> logits, const std::vector<size_t>& rows);
  /// Rank r has drawn rows r, r + ranks, ... of `rows`; afterwards `out` holds what all have.
  void ShareDrawn(const std::vector<size_t>& rows, const SequenceTable& table, std::vector<SampledToken>& out);
  /// Rank r has scored rows r, r + ranks, ...; `mine` holds those, afterwards `scores` those of all.
  void ShareScored(int num_rows, const PromptScores& mine, PromptScores& scores);
  /// Records of all rows, one after another, from those of this rank's rows; row i has sizes[i] entries.
  Records Share(const std::vector<size_t>& sizes, const Records& mine);

  std::vector<Range> vocab_of_rank_;
  int64_t vocab_size_;
  Collective& collective_;
};

}  // namespace quire

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "comm/collective/collective.h"
#include "kernels/sampling.h"
#include "kernels/stream.h"
#include "worker/engine/sequence_table.h"
#include "worker/model/shard.h"
#include "worker/sampling/draw.h"

namespace quire {

/// Samples ("draws") the step's tokens from vocabulary-parallel logits, and scores prompts. Tokens of greedy rows are
/// chosen from candidates that every rank gathers. The other rows, and the grammar masks, are divided among the ranks,
/// which then exchange their results, so that all ranks get the same tokens. The threads of a rank share its rows. The
/// class is not thread-safe.
class Sampler {
 public:
  /// `stream` has the rank's threads. It must outlive the sampler, and nothing else may use it during a call.
  Sampler(std::vector<Range> vocab_of_rank, Collective& collective, const kernels::CpuStream& stream);

  /// The most rows for which tokens are sampled at the same time. More rows would take more memory for logits; fewer
  /// would read the output head more often.
  static constexpr int kDrawnAtOnce = 64;

  /// Returns the rank's logits of rows [row, row + count): [count, local vocab], valid until the next call.
  using LogitsOfRows = std::function<std::span<float>(int64_t row, int64_t count)>;
  /// Samples one token for each row that needs one, in batch order, up to kDrawnAtOnce rows at a time. The row numbers
  /// that `logits_of` gets count only these rows. Their logits are overwritten. Returns the tokens that remain after
  /// verification (SequenceTable::KeepVerified). Every rank must call it.
  std::vector<SampledToken> Draw(const LogitsOfRows& logits_of, const std::vector<BatchMember>& batch,
                                 const SequenceTable& table);

  /// Scores the batch's prompts, up to kScoredAtOnce rows at a time. The row numbers that `logits_of` gets count all
  /// rows of the step. Every rank must call it.
  std::vector<PromptScores> Score(const LogitsOfRows& logits_of, const std::vector<BatchMember>& batch,
                                  const SequenceTable& table);

 private:
  using Records = std::vector<kernels::Candidate>;
  /// Samples the tokens of rows with these logits. The rows' prefixes are in prefixes_. `out` has the rows' slots.
  void DrawRows(std::span<float> logits, std::vector<SampledToken>& out);
  /// Sets the tokens of the rows that need only the best logit over all ranks.
  void DrawGreedy(std::span<const float> logits, const std::vector<size_t>& rows, std::vector<SampledToken>& out);
  /// Masks the rows by their grammars. Returns the rows that have an allowed token. Marks the other rows in `out` with
  /// the grammar's outcome.
  std::vector<size_t> Mask(std::span<float> logits, const std::vector<size_t>& rows, std::vector<SampledToken>& out);
  /// Sends this rank's part of each of the rows `rows` of `logits` to the rank that samples the row's token.
  void Deal(std::span<const float> logits, const std::vector<size_t>& rows);
  /// Returns the whole row rows[i], which Deal has sent to this rank. Valid until this thread's next call.
  std::span<float> DealtRow(std::span<float> logits, const std::vector<size_t>& rows, size_t i, int thread);
  /// Samples the tokens of the rows that Deal has sent to this rank. One thread handles all rows with grammars. The
  /// threads divide the other rows among themselves.
  void DrawDealt(std::span<float> logits, const std::vector<size_t>& rows, std::vector<SampledToken>& out);
  // Returns the number of ranks. Rank r has rows r, r + ranks, r + 2 * ranks, ...
  size_t num_ranks() const { return static_cast<size_t>(collective_.size()); }
  size_t rank() const { return static_cast<size_t>(collective_.rank()); }
  size_t NumDealt(size_t num_rows, size_t rank) const { return (num_rows + num_ranks() - 1 - rank) / num_ranks(); }
  /// Makes the sampled tokens known to all ranks. Before the call, rank r has sampled the tokens of rows r, r + ranks,
  /// ... of `rows`. After the call, `out` has the tokens of all rows.
  void ShareDrawn(const std::vector<size_t>& rows, std::vector<SampledToken>& out);
  /// Makes the scores known to all ranks. Before the call, rank r has scored rows r, r + ranks, ... in `mine`. After
  /// the call, `scores` has the scores of all rows.
  void ShareScored(int num_rows, const PromptScores& mine, PromptScores& scores);
  /// Gathers the records of all rows in row order. Row i has sizes[i] records. `mine` has the records of this rank's
  /// rows.
  Records Share(const std::vector<size_t>& sizes, const Records& mine);

  std::vector<Range> vocab_of_rank_;
  int64_t vocab_size_;
  Collective& collective_;
  const kernels::CpuStream& stream_;
  std::vector<Prefix> prefixes_;  // prefixes of the rows that are sampled at the same time, in batch order
  // Buffers that later steps use again: freeing and allocating megabytes costs more than the work done in them.
  std::vector<float> outgoing_, incoming_;
  std::vector<std::vector<float>> joined_rows_;  // by thread
  std::vector<uint32_t> masks_, masks_dealt_;
};

}  // namespace quire

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "comm/base/types.h"
#include "comm/grammar/grammar_source.h"

namespace quire {

/// The index of a sequence in every worker's sequence table, 0 .. max_num_seqs - 1. A sequence gets its slot when it is
/// added. The slot is free again when the sequence is released.
using SlotId = uint32_t;

/// How the final hidden states of a prompt's tokens (the input rows of the output head) become the answer's numbers:
/// one embedding vector, or numbers of every token. Only encoders answer with numbers of every token.
enum class Pooling : uint8_t {
  kNone,
  kLast,    // the row of the last token
  kMean,    // the mean over all rows
  kCls,     // the row of the first token
  kAll,     // all rows, one after another
  kSparse,  // a weight of every token (PooledHead::sparse)
  kColbert  // a vector of every token (PooledHead::colbert), one after another
};

/// True when the answer needs rows other than the last token's. Such a prompt is computed from position 0 on, without
/// leaving its slot.
inline bool PoolsFromTheFirst(Pooling pooling) { return pooling >= Pooling::kMean; }
/// True when every token of the prompt has numbers in the answer.
inline bool PoolsEachToken(Pooling pooling) { return pooling >= Pooling::kAll; }

/// Limits the tokens of the section of thoughts (reasoning) at an answer's beginning. At the limit the section is
/// closed.
struct ThoughtLimit {
  int32_t tokens = -1;         // most tokens of the section; -1: no limit, and the other members are unused
  bool begun = false;          // the prompt ends inside the section
  std::vector<TokenId> open;   // tokens that open the section when the prompt does not
  std::vector<TokenId> close;  // closing tokens; the section also ends when the first of them is sampled

  bool operator==(const ThoughtLimit&) const = default;
};

/// How the tokens of a sequence are sampled. Random numbers follow from (seed, choice, position), so they are
/// reproducible.
struct SamplingSpec {
  float temperature = 1.0f;  // 0: greedy
  int32_t top_k = 0;         // 0: all tokens
  float top_p = 1.0f;
  float min_p = 0.0f;
  float repetition_penalty = 1.0f;
  float frequency_penalty = 0.0f;
  float presence_penalty = 0.0f;
  uint64_t seed = 0;
  uint32_t choice = 0;               // index of the sequence in its request
  int32_t num_logprobs = -1;         // alternatives reported with each token; -1: no log-probabilities at all
  int32_t num_prompt_logprobs = -1;  // like num_logprobs, for prompt tokens but the first; -1: the prompt is not scored
  std::vector<std::pair<TokenId, float>> logit_bias;
  std::vector<TokenId> banned_until_min;  // tokens that are not sampled before min_tokens tokens are generated
  int32_t min_tokens = 0;
  GrammarSource grammar;                        // the form that the generated text must have
  std::vector<TokenId> allowed_tokens;          // only these tokens may be sampled; empty: all
  std::vector<std::vector<TokenId>> bad_words;  // token sequences that must not appear in the generated text
  std::vector<TokenId> logprob_tokens;          // alternatives to report; empty: the likeliest
  Pooling pooling = Pooling::kNone;             // how to pool the prompt; the vector comes with the first sampled token
  ThoughtLimit thoughts;
  int32_t second_text = 0;  // the first prompt token of token type 1: the second text of a pair; 0: all have type 0

  bool operator==(const SamplingSpec&) const = default;
};

/// Adapters that Assign lists have the numbers 1 to kMostListedAdapters, in the order of the list. Adapters that are
/// loaded while serving (AdapterMessage) have higher numbers.
inline constexpr int32_t kMostListedAdapters = 1024;

/// A sequence that is new to the workers, sent whole. The keys and values of its first num_computed tokens are
/// already in its blocks: from the prefix cache, from host blocks, or shared with the sequence from which it was
/// forked.
struct AddedSequence {
  SlotId slot = 0;
  int32_t num_prompt_tokens = 0;
  int32_t num_computed = 0;
  std::vector<TokenId> tokens;
  std::vector<BlockId> blocks;
  SamplingSpec sampling;
  int32_t num_scored = 0;      // leading rows of the prompt that were scored before; see RowsToScore
  std::vector<BlockId> state;  // blocks of the sequence's state after num_computed tokens; see StateTable
  int32_t adapter = 0;         // number of the sequence's LoRA adapter; 0: none. See kMostListedAdapters

  bool operator==(const AddedSequence&) const = default;
};

/// Continues a beam: `slot` becomes a copy of `parent`, and `token` replaces the last sampled token of the copy. `slot`
/// may be its own parent.
struct Branch {
  SlotId slot;
  SlotId parent;
  TokenId token;

  bool operator==(const Branch&) const = default;
};

/// Sets entry `index` of the sequence's block table to `block`. If `index` is the table's length, appends the entry.
/// The null block replaces a block that has left the attention window.
struct TableEdit {
  SlotId slot;
  uint32_t index;
  BlockId block;

  bool operator==(const TableEdit&) const = default;
};

/// Names the blocks that hold the sequence's state from this step on. Some models have a recurrent state of fixed size
/// (PROTOCOL.md, States). The state of each sequence occupies as many blocks of the pool as StartMessage specified. A
/// state uses its blocks as plain memory, apart from keys and values. Other models have no states.
struct StateTable {
  SlotId slot;
  std::vector<BlockId> blocks;

  bool operator==(const StateTable&) const = default;
};

/// Copies the content of block `source` to block `destination`.
struct BlockCopyPair {
  BlockId source;
  BlockId destination;

  bool operator==(const BlockCopyPair&) const = default;
};

/// Computes tokens [start, start + count) of the sequence. If this range includes the sequence's last token, the next
/// token is sampled.
struct Chunk {
  SlotId slot;
  int32_t start;
  int32_t count;

  bool operator==(const Chunk&) const = default;
};

/// A part of an encoder's pass over a text (PROTOCOL.md, Slices). The pass has `stages` stages, one more than the model
/// has layers. Stage i finishes layer i - 1 for each of the text's `tokens` rows and begins layer i. The units of the
/// pass are the rows of stage 0, then those of stage 1, and so on. The slice computes units [begin, begin + count). The
/// workers store the activations of all rows between slices.
struct Slice {
  SlotId slot = 0;
  int32_t begin = 0;
  int32_t count = 0;  // 0: no slice
  int32_t tokens = 0;
  int32_t stages = 0;

  int64_t end() const { return int64_t{begin} + count; }
  /// Returns the number of units of the whole pass.
  int64_t whole() const { return int64_t{tokens} * stages; }
  /// True when the slice ends the pass, so that the answer is computed.
  bool completes() const { return count > 0 && end() == whole(); }
  /// Returns the slice's part of the pass, in tokens.
  double equivalent() const { return static_cast<double>(count) / stages; }

  bool operator==(const Slice&) const = default;
};

/// Returns the most rows for which workers store activations between slices. A rank sets aside memory for these
/// activations.
inline constexpr int64_t MostKeptRows(int64_t max_model_len) { return 4 * max_model_len; }

/// Computes the last known token of a sequence, as a decode does, and then the draft tokens `tokens`, which may follow
/// it. A token is sampled from each of these 1 + tokens.size() rows. Verification accepts the sampled tokens up to the
/// first one that differs from the draft, so the sequence gains 1 to 1 + tokens.size() tokens (PROTOCOL.md, Drafts).
struct Draft {
  SlotId slot = 0;
  std::vector<TokenId> tokens;

  bool operator==(const Draft&) const = default;
};

/// Asks rank 0's draft model which tokens will follow the slot's sequence after this step. The answer, at most `count`
/// tokens, is in StepResult::guesses (PROTOCOL.md, Guesses of a draft model).
struct GuessOrder {
  SlotId slot;
  int32_t count;

  bool operator==(const GuessOrder&) const = default;
};

/// The positions [start, start + count) of a prompt, whose logits the rank computes for scores. The logits of position
/// p score the token at p + 1.
struct ScoredRows {
  int start = 0;
  int count = 0;
};

/// Returns the rows to score when tokens [start, start + count) of a sequence are computed and its first num_scored
/// rows were scored before. The row of a prompt's last token is not scored, because the token after it is sampled.
/// Returns no rows if the request scores no prompt tokens.
inline ScoredRows RowsToScore(const SamplingSpec& sampling, int num_prompt_tokens, int num_scored, int start,
                              int count) {
  if (sampling.num_prompt_logprobs < 0) return {};
  const int first = std::max(start, num_scored), end = std::min(start + count, num_prompt_tokens - 1);
  return {first, std::max(0, end - first)};
}

/// Everything that one step does, the same for all ranks. Ranks apply the fields in their order, so a block that one
/// field frees may be used again in the same step. Swap-outs run before any block is overwritten, swap-ins before
/// copies, and copies before the forward pass writes. The batch has `decodes` in ascending slot order, then `drafts`,
/// then `chunks`, then `slices`. A decode computes its sequence's last token, the only one not computed yet, and
/// samples the next.
struct StepPlan {
  EpochId epoch = 0;
  StepId step = 0;
  std::vector<SlotId> released;
  std::vector<AddedSequence> added;
  std::vector<Branch> branches;
  std::vector<TableEdit> tables;
  std::vector<StateTable> states;
  std::vector<BlockCopyPair> swap_outs;  // device block to host block
  std::vector<BlockCopyPair> swap_ins;   // host block to device block
  std::vector<BlockCopyPair> copies;     // device block to device block
  std::vector<SlotId> decodes;
  std::vector<Draft> drafts;
  std::vector<Chunk> chunks;
  std::vector<Slice> slices;
  std::vector<GuessOrder> guesses;  // for decodes and drafts of this step, in the order of the batch
  uint64_t position_sum = 0;        // sum of the batch members' first positions; reveals a worker that is out of step

  bool operator==(const StepPlan&) const = default;
  /// Returns the number of tokens that the step computes. The tokens of a text in slices count in its last slice.
  int num_tokens() const;
  bool empty() const { return decodes.empty() && drafts.empty() && chunks.empty() && slices.empty(); }

  /// Empties all lists without freeing their memory, which the next step uses again.
  void Clear() {
    released.clear();
    added.clear();
    branches.clear();
    tables.clear();
    states.clear();
    swap_outs.clear();
    swap_ins.clear();
    copies.clear();
    decodes.clear();
    drafts.clear();
    chunks.clear();
    slices.clear();
    guesses.clear();
    position_sum = 0;
  }
};

inline int StepPlan::num_tokens() const {
  size_t tokens = decodes.size();
  for (const Draft& draft : drafts) tokens += 1 + draft.tokens.size();
  for (const Chunk& chunk : chunks) tokens += static_cast<size_t>(chunk.count);
  for (const Slice& slice : slices) tokens += slice.completes() ? static_cast<size_t>(slice.tokens) : 0;
  return static_cast<int>(tokens);
}

struct SampledToken {
  SlotId slot = 0;
  TokenId token = 0;
  float logprob = 0;                           // natural log, if requested; not finite: a mark (see marked())
  std::vector<std::pair<TokenId, float>> top;  // requested alternatives, likeliest first
  std::vector<float> pooled = {};              // the pooled prompt, with the first token only: [hidden], or more

  /// True when the logits were not finite, so that no token could be sampled. `token` is a valid id without meaning.
  bool broken() const { return std::isnan(logprob); }
  /// True when following the sequence's grammar would take too much work. `token` has no meaning.
  bool overworked() const { return logprob > 0 && std::isinf(logprob); }
  /// True when no token is possible under the sequence's grammar, or under its allowed tokens without the bad words.
  /// `token` has no meaning.
  bool dead_end() const { return logprob < 0 && std::isinf(logprob); }
  /// True when `token` has no meaning.
  bool marked() const { return !std::isfinite(logprob); }

  bool operator==(const SampledToken&) const = default;
};

/// Removes the tokens of `slot`, at most max_tokens, from the front of `tokens` and returns them. A slot is in a batch
/// only once, so these are all verified tokens of the slot.
inline std::span<const SampledToken> TakeDrawn(std::span<const SampledToken>& tokens, SlotId slot, size_t max_tokens) {
  size_t count = 0;
  while (count < std::min(tokens.size(), max_tokens) && tokens[count].slot == slot) ++count;
  const std::span<const SampledToken> taken = tokens.first(count);
  tokens = tokens.subspan(count);
  return taken;
}

/// Returns how many leading tokens of `drawn`, the tokens sampled from the rows, verification accepts: those that equal
/// the draft `guess`, and the token after them. A marked token is accepted only if it is the first, so that the tokens
/// before it are delivered in an earlier step.
inline size_t CountVerified(std::span<const SampledToken> drawn, std::span<const TokenId> guess) {
  size_t kept = 1;
  while (kept < drawn.size() && drawn[kept - 1].token == guess[kept - 1] && !drawn[kept].marked() &&
         !drawn[kept - 1].marked()) {
    ++kept;
  }
  return kept;
}

/// The model's log-probabilities of consecutive tokens of a prompt.
struct PromptScores {
  SlotId slot = 0;
  int32_t start = 0;            // row whose logits score the first token: the token's position minus 1
  int32_t num_top = 0;          // alternatives for each token
  std::vector<float> logprobs;  // [count] natural log; NaN: the logits were not numbers
  std::vector<int32_t> ranks;   // [count] 1 = best; order in the vocabulary by falling logit, then rising id
  std::vector<std::pair<TokenId, float>> top;  // [count, num_top] best first

  size_t count() const { return logprobs.size(); }
  bool broken() const {
    return std::ranges::any_of(logprobs, [](float logprob) { return std::isnan(logprob); });
  }

  bool operator==(const PromptScores&) const = default;
};

/// A rank's answer to a step. Only rank 0 sends the sampled tokens; every rank sends their hash.
struct StepResult {
  EpochId epoch = 0;
  StepId step = 0;
  Rank rank = 0;
  uint64_t plan_hash = 0;
  uint64_t token_hash = 0;
  uint32_t compute_micros = 0;       // time of the whole step
  uint32_t swap_micros = 0;          // part of compute_micros that moved blocks to and from the host
  std::vector<SampledToken> tokens;  // accepted sampled tokens in batch order; empty except for rank 0
  std::vector<PromptScores> scores;  // scored prompt tokens, in batch order; empty except for rank 0
  /// Drafts of rank 0's draft model, at most one for each order of the plan, in the order of the plan. The `tokens` of
  /// a draft follow the tokens that the step has sampled.
  std::vector<Draft> guesses = {};
  uint32_t guess_micros = 0;  // part of compute_micros that the draft model took
};

}  // namespace quire

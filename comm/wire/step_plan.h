#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "comm/base/types.h"
#include "comm/grammar/grammar_source.h"

namespace quire {

/// Where a sequence lives in every worker's table, 0 .. max_num_seqs - 1. Given when the sequence is added and free
/// again when it is released.
using SlotId = uint32_t;

/// What is wanted of a prompt's last activations, i.e. of the rows that the output head reads: one vector.
enum class Pooling : uint8_t {
  kNone,
  kLast,  // that of its last token
  kMean,  // the mean over all of its tokens
  kCls    // that of its first token
};

/// True where the vector is made of more than the last row: then the prompt is computed from its beginning on, in one
/// slot, by the ranks that tell it.
inline bool PoolsFromTheFirst(Pooling pooling) { return pooling == Pooling::kMean || pooling == Pooling::kCls; }

/// Where the thoughts that an answer begins with are brought to an end, if they do not end before.
struct ThoughtLimit {
  int32_t tokens = -1;         // that they may have; -1: any number, and nothing else counts
  bool begun = false;          // the prompt has opened them
  std::vector<TokenId> open;   // opens them where the prompt has not
  std::vector<TokenId> close;  // ends them: its first token alone where the model does so, all of it where they are cut

  bool operator==(const ThoughtLimit&) const = default;
};

/// How the tokens of a sequence are drawn. Draws are keyed by (seed, choice, position), so they can be repeated.
struct SamplingSpec {
  float temperature = 1.0f;  // 0: greedy
  int32_t top_k = 0;         // 0: all
  float top_p = 1.0f;
  float min_p = 0.0f;
  float repetition_penalty = 1.0f;
  float frequency_penalty = 0.0f;
  float presence_penalty = 0.0f;
  uint64_t seed = 0;
  uint32_t choice = 0;        // index of the sequence inside its request
  int32_t num_logprobs = -1;  // alternatives reported with each token; -1: not even the token's own log-probability
  int32_t num_prompt_logprobs = -1;  // the same for the tokens of the prompt, its first excepted
  std::vector<std::pair<TokenId, float>> logit_bias;
  std::vector<TokenId> banned_until_min;  // tokens that may not be drawn before min_tokens are generated
  int32_t min_tokens = 0;
  GrammarSource grammar;                        // what the generated text must be
  std::vector<TokenId> allowed_tokens;          // no others are drawn; none: all
  std::vector<std::vector<TokenId>> bad_words;  // none of them comes to stand among the generated tokens
  std::vector<TokenId> logprob_tokens;          // the alternatives to report, in place of the likeliest; none: those
  Pooling pooling = Pooling::kNone;             // what the first token drawn comes with
  ThoughtLimit thoughts;

  bool operator==(const SamplingSpec&) const = default;
};

/// A sequence the workers see for the first time, sent whole. Its first num_computed tokens are in its blocks already
/// (shared with the sequence it was forked from).
struct AddedSequence {
  SlotId slot = 0;
  int32_t num_prompt_tokens = 0;
  int32_t num_computed = 0;
  std::vector<TokenId> tokens;
  std::vector<BlockId> blocks;
  SamplingSpec sampling;
  int32_t num_scored = 0;      // leading rows of its prompt that were scored already; see RowsToScore
  std::vector<BlockId> state;  // where its state is, the one after num_computed tokens; see StateTable

  bool operator==(const AddedSequence&) const = default;
};

/// A beam goes on: `slot` becomes what `parent` is, with its last token (the one drawn for it) replaced by `token`.
/// `slot` may be its own parent.
struct Branch {
  SlotId slot;
  SlotId parent;
  TokenId token;

  bool operator==(const Branch&) const = default;
};

/// Entry `index` of the sequence's block table is now `block`; an index equal to the length appends. The null block
/// stands for a block that left the attention window.
struct TableEdit {
  SlotId slot;
  uint32_t index;
  BlockId block;

  bool operator==(const TableEdit&) const = default;
};

/// The sequence's state is in these blocks from now on. A model whose layers carry a state of fixed size from token to
/// token (PROTOCOL.md, States) has it for every sequence in as many blocks of the pool as Start said, an address space
/// of their own; other models have none.
struct StateTable {
  SlotId slot;
  std::vector<BlockId> blocks;

  bool operator==(const StateTable&) const = default;
};

/// One block's content goes from `source` to `destination`.
struct BlockCopyPair {
  BlockId source;
  BlockId destination;

  bool operator==(const BlockCopyPair&) const = default;
};

/// Tokens [start, start + count) of the sequence are computed; when that reaches its last known token, one is drawn.
struct Chunk {
  SlotId slot;
  int32_t start;
  int32_t count;

  bool operator==(const Chunk&) const = default;
};

/// Positions [start, start + count) of a prompt whose logits are wanted: those of position p score the token at p + 1.
struct ScoredRows {
  int start = 0;
  int count = 0;
};

/// The rows that computing tokens [start, start + count) of a sequence scores, where its first num_scored rows were
/// scored already. The last token of a prompt has none: what comes after it is drawn.
inline ScoredRows RowsToScore(const SamplingSpec& sampling, int num_prompt_tokens, int num_scored, int start,
                              int count) {
  if (sampling.num_prompt_logprobs < 0) return {};
  const int first = std::max(start, num_scored), end = std::min(start + count, num_prompt_tokens - 1);
  return {first, std::max(0, end - first)};
}

/// Everything one step does, the same for every rank. Applied in the order of the fields, so that blocks that are given
/// up may be used again in the same step: out to the host before anything is overwritten, in from the host before it is
/// copied, copies before the forward pass writes. The batch is `decodes` in ascending slot order (each computes its one
/// token that is not computed yet and draws the next), then `chunks`.
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
  std::vector<Chunk> chunks;
  uint64_t position_sum = 0;  // sum of the first positions of the batch's members: a worker out of step notices

  bool operator==(const StepPlan&) const = default;
  bool empty() const { return decodes.empty() && chunks.empty(); }

  /// Empties everything and keeps the memory for the next step.
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
    chunks.clear();
    position_sum = 0;
  }
};

struct SampledToken {
  SlotId slot = 0;
  TokenId token = 0;
  float logprob = 0;                           // natural log; only when asked for, or a mark: see below
  std::vector<std::pair<TokenId, float>> top;  // the alternatives asked for, best first
  std::vector<float> pooled = {};              // [hidden] of the prompt, with its first token, where it is to be pooled

  /// The logits were no numbers that a token can be drawn from; `token` is one of the vocabulary, and means nothing.
  bool broken() const { return std::isnan(logprob); }
  /// Keeping to the sequence's grammar takes too much work to go on; `token` means nothing.
  bool overworked() const { return logprob > 0 && std::isinf(logprob); }
  /// The sequence's grammar, or its allowed tokens with the bad words, leave no token here; `token` means nothing.
  bool dead_end() const { return logprob < 0 && std::isinf(logprob); }

  bool operator==(const SampledToken&) const = default;
};

/// What the model thinks of consecutive tokens of a prompt.
struct PromptScores {
  SlotId slot = 0;
  int32_t start = 0;            // the row that scored the first of them, i.e. its position less 1
  int32_t num_top = 0;          // alternatives of each
  std::vector<float> logprobs;  // [count] natural log; NaN: the logits were no numbers
  std::vector<int32_t> ranks;   // [count] place of each in the vocabulary by falling logit, then rising id; 1: the best
  std::vector<std::pair<TokenId, float>> top;  // [count, num_top] each best first

  size_t count() const { return logprobs.size(); }
  bool broken() const {
    return std::ranges::any_of(logprobs, [](float logprob) { return std::isnan(logprob); });
  }

  bool operator==(const PromptScores&) const = default;
};

/// What a rank reports for a step. Tokens come from rank 0; every rank sends the hash of those it has.
struct StepResult {
  EpochId epoch = 0;
  StepId step = 0;
  Rank rank = 0;
  uint64_t plan_hash = 0;
  uint64_t token_hash = 0;
  uint32_t compute_micros = 0;       // the whole step
  uint32_t swap_micros = 0;          // of those, moving blocks to and from the host
  std::vector<SampledToken> tokens;  // in batch order, members that drew; empty for ranks other than 0
  std::vector<PromptScores> scores;  // in batch order, members that scored; likewise
};

}  // namespace quire

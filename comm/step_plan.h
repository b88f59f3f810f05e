#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "comm/types.h"

namespace quire {

/// Where a sequence lives in every worker's table, 0 .. max_num_seqs - 1. Given when the sequence is added and free
/// again when it is released.
using SlotId = uint32_t;

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
  std::vector<std::pair<TokenId, float>> logit_bias;
  std::vector<TokenId> banned_until_min;  // tokens that may not be drawn before min_tokens are generated
  int32_t min_tokens = 0;

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

  bool operator==(const AddedSequence&) const = default;
};

/// From entry first_index on, the sequence's block table now reads `blocks`.
struct TableDelta {
  SlotId slot = 0;
  uint32_t first_index = 0;
  std::vector<BlockId> blocks;

  bool operator==(const TableDelta&) const = default;
};

/// Block `source` is copied to `destination` before the step's forward pass.
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

/// Everything one step does, the same for every rank. Applied in the order of the fields. The batch is `decodes` in
/// ascending slot order (each computes its one token that is not computed yet and draws the next), then `chunks`.
struct StepPlan {
  EpochId epoch = 0;
  StepId step = 0;
  std::vector<SlotId> released;
  std::vector<AddedSequence> added;
  std::vector<TableDelta> tables;
  std::vector<BlockCopyPair> copies;
  std::vector<SlotId> decodes;
  std::vector<Chunk> chunks;
  uint64_t position_sum = 0;  // sum of the first positions of the batch's members: a worker out of step notices

  bool operator==(const StepPlan&) const = default;
  bool empty() const { return decodes.empty() && chunks.empty(); }
};

struct SampledToken {
  SlotId slot = 0;
  TokenId token = 0;
  float logprob = 0;                           // natural log; only when asked for
  std::vector<std::pair<TokenId, float>> top;  // the alternatives asked for, best first

  bool operator==(const SampledToken&) const = default;
};

/// What a rank reports for a step. Tokens come from rank 0; every rank sends the hash of those it drew.
struct StepResult {
  EpochId epoch = 0;
  StepId step = 0;
  Rank rank = 0;
  uint64_t plan_hash = 0;
  uint64_t token_hash = 0;
  uint32_t compute_micros = 0;
  std::vector<SampledToken> tokens;  // in batch order, members that drew; empty for ranks other than 0
};

}  // namespace quire

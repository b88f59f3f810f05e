#pragma once

#include <optional>
#include <vector>

#include "comm/base/types.h"
#include "comm/wire/step_plan.h"
#include "coordinator/core/blocks/draft_pace.h"
#include "coordinator/core/blocks/prefix_cache.h"
#include "coordinator/core/blocks/state_checkpoints.h"

namespace quire {

enum class FinishReason { kStop, kLength, kAbort };

/// One growing list of tokens with one block table: the unit of scheduling. The scheduler changes its members. A
/// sequence has work to schedule exactly when num_planned() < length().
struct Sequence {
  SequenceId id = 0;
  int choice = 0;  // index among the request's sequences
  int num_prompt_tokens = 0;
  std::vector<TokenId> tokens;       // prompt tokens, then generated tokens
  int num_computed = 0;              // tokens whose keys and values are in the blocks, according to committed results
  int num_in_flight = 0;             // further tokens that outstanding steps compute
  int num_pending = 0;               // tokens beyond `tokens` that outstanding steps sample
  std::vector<BlockId> blocks;       // entry i covers positions [i * block_size, (i + 1) * block_size)
  int first_block = 0;               // number of leading entries that left the attention window and are null
  int told_first_block = 0;          // the value of first_block that the workers know
  std::vector<BlockId> host_blocks;  // while swapped out: host copies of `blocks`, same indices
  std::optional<SlotId> slot;        // the workers' id for the sequence while they know it
  int64_t last_step = 0;             // number of the last step that computed part of the sequence
  int num_passed = 0;                // units of the prompt's pass (Slice) that planned steps compute; 0: no pass
  bool sits_out = false;             // skips the step being planned, in which other sequences have their turn
  std::optional<FinishReason> finished;
  DraftPace drafts;
  std::vector<TokenId> guess;  // the draft model's tokens that follow the first guess_at tokens; empty: none
  int guess_at = 0;

  /// Ids of the contents of the full blocks, for the prefix cache.
  struct Contents {
    BlockHash root;                 // start of the hash chain, derived from the request's cache salt and adapter
    int adapter = 0;                // the request's LoRA adapter; 0: none
    std::vector<BlockHash> hashes;  // one per full block of `tokens`, computed on demand
    ContentId last = 0;             // content of block num_named - 1; the root's content while num_named is 0
    int num_named = 0;              // leading blocks whose content has an id

    /// Forgets the ids, so that all blocks get ids again from the first one on.
    void Restart() {
      num_named = 0;
      last = PrefixCache::RootContent(root);
    }
  } contents;

  // The members below are for models with recurrent states (SequenceStates). They stay empty for other models.

  /// Blocks of the state after num_planned() tokens, once all outstanding steps are done; empty before the first step.
  std::vector<BlockId> state;
  std::vector<BlockId> host_state;       // while swapped out: host copy of `state`
  std::vector<ComingCheckpoint> coming;  // states that outstanding steps compute; the earliest first
  CheckpointId latest_checkpoint = 0;    // checkpoint of the generated tokens; the next one replaces it
  int begun = 0;                         // cached tokens that the sequence took over together with the state after them
  int shared_prefix = 0;                 // leading tokens whose keys and values were in the cache at the last lookup

  int num_tokens() const { return static_cast<int>(tokens.size()); }
  /// Returns the number of computed tokens after all outstanding steps.
  int num_planned() const { return num_computed + num_in_flight; }
  /// Returns the number of tokens after all outstanding steps; the values of the last num_pending are not known yet.
  int length() const { return num_tokens() + num_pending; }
  int num_generated() const { return num_tokens() - num_prompt_tokens; }
  int num_held_blocks() const { return static_cast<int>(blocks.size()) - first_block; }
  /// True while slices of the prompt (LongPasses) are planned, but not its last slice.
  bool in_pass() const { return num_passed > 0 && num_planned() == 0; }
};

/// A sequence, and the number of leading tokens that its blocks must cover after growing.
struct GrowTarget {
  Sequence* sequence;
  int num_tokens;
  int from_host = 0;  // number of the sequence's next blocks that are copied back from the host, not computed
  /// The part of the prompt's computation that the step computes, if the prompt is computed in slices (LongPasses); its
  /// slot is not set. The slice takes slice_cost tokens from the step's budget. An empty slice: the step computes whole
  /// tokens.
  Slice slice = {};
  int slice_cost = 0;
};

/// Returns the n sequences of a new request: choices 0 .. n-1, each with the prompt and nothing computed.
inline std::vector<Sequence> NewSequences(const std::vector<TokenId>& prompt, int n) {
  std::vector<Sequence> sequences(static_cast<size_t>(n));
  for (int choice = 0; choice < n; ++choice) {
    Sequence& sequence = sequences[static_cast<size_t>(choice)];
    sequence.choice = choice;
    sequence.tokens = prompt;
    sequence.num_prompt_tokens = static_cast<int>(prompt.size());
  }
  return sequences;
}

}  // namespace quire

#pragma once

#include <optional>
#include <vector>

#include "comm/base/types.h"
#include "comm/wire/step_plan.h"
#include "coordinator/core/prefix_cache.h"
#include "coordinator/core/state_checkpoints.h"

namespace quire {

enum class FinishReason { kStop, kLength, kAbort };

/// One growing list of tokens with one block table: the unit of scheduling. Plain data; the scheduler moves it on.
/// The one reason to schedule a sequence is num_planned < length.
struct Sequence {
  SequenceId id = 0;
  int choice = 0;  // index inside its request
  int num_prompt_tokens = 0;
  std::vector<TokenId> tokens;       // prompt, then what was generated
  int num_computed = 0;              // tokens whose keys and values are in the blocks, by the results that are in
  int num_in_flight = 0;             // tokens after those that outstanding steps compute
  int num_pending = 0;               // tokens after `tokens` that outstanding steps draw
  std::vector<BlockId> blocks;       // entry i covers positions [i * block_size, (i + 1) * block_size)
  int first_block = 0;               // entries before it left the attention window and are null
  int told_first_block = 0;          // what the workers know of first_block
  std::vector<BlockId> host_blocks;  // swapped out: where the content of `blocks` waits; same indices
  std::optional<SlotId> slot;        // while the workers know the sequence
  int64_t last_step = 0;             // the number of the last step that computed it
  bool sits_out = false;             // of the step being planned: its client's other sequences take its turn
  std::optional<FinishReason> finished;

  /// What the full blocks hold, for the prefix cache.
  struct Contents {
    BlockHash root;                 // of the request's salt
    std::vector<BlockHash> hashes;  // of the full blocks of `tokens`, as far as anybody asked
    ContentId last = 0;             // content of block num_named - 1; the root's while that is 0
    int num_named = 0;              // leading blocks whose content has an id

    /// Names are given anew, from the first block on.
    void Restart() {
      num_named = 0;
      last = PrefixCache::RootContent(root);
    }
  } contents;

  // What follows is of models whose layers carry a state from token to token (SequenceStates); else all of it is empty.

  /// Where the state after num_planned() tokens is once outstanding steps are done; none before the first step.
  std::vector<BlockId> state;
  std::vector<BlockId> host_state;  // swapped out: where that waits
  /// The state after num_tokens tokens, which an outstanding step computes: a checkpoint once its result is in.
  struct ComingCheckpoint {
    int num_tokens = 0;
    std::vector<BlockId> blocks;
  } coming;
  CheckpointId latest_checkpoint = 0;  // of the generated tokens; the next one replaces it
  int begun = 0;                       // tokens that it took over when it began, with the state behind them
  int shared_prefix = 0;  // tokens whose keys and values were cached when it looked last, from its first on

  int num_tokens() const { return static_cast<int>(tokens.size()); }
  /// Computed tokens once every outstanding step is done.
  int num_planned() const { return num_computed + num_in_flight; }
  /// Tokens once every outstanding step is done; the values of the last num_pending are not known here yet.
  int length() const { return num_tokens() + num_pending; }
  int num_generated() const { return num_tokens() - num_prompt_tokens; }
  int num_held_blocks() const { return static_cast<int>(blocks.size()) - first_block; }
};

/// A sequence and the number of tokens its blocks must hold.
struct GrowTarget {
  Sequence* sequence;
  int num_tokens;
};

/// The n sequences of a new request: choices 0 .. n-1, each with the prompt and nothing computed.
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

#pragma once

#include <cstdint>
#include <vector>

#include "worker/engine/sequence_table.h"

namespace quire {

/// A batch as flat arrays for the kernels. It has T tokens (rows) of S sequences. After R of the T rows, a token is
/// sampled.
struct StepInputs {
  std::vector<int32_t> token_ids;       // [T]
  std::vector<int32_t> positions;       // [T]
  std::vector<int32_t> token_types;     // [T] 1 for tokens of the second text of a pair, else 0
  std::vector<int64_t> slots;           // [T] cache slot of each new token: block id * block_size + offset in the block
  std::vector<int32_t> query_start;     // [S + 1] first row of each sequence, then the number of rows
  std::vector<int32_t> context_len;     // [S] number of the sequence's tokens, the new tokens included
  std::vector<int32_t> first_position;  // [S] position of each sequence's first new token
  std::vector<int32_t> block_tables;    // [S, table_stride]
  int64_t table_stride = 0;
  std::vector<int32_t> state_blocks;  // [S, state_stride]: blocks of the sequences' states
  int64_t state_stride = 0;           // blocks per state; 0: the model has none
  /// [S] rows of each sequence with drafts whose state must wait for verification, 0 for other sequences; empty: none.
  std::vector<int32_t> held_rows;
  std::vector<int32_t> adapters;   // [T] number of each token's LoRA adapter, 0: none; empty: no token has one
  std::vector<int32_t> draw_rows;  // [R] rows in [0, T) after which a token is sampled, in batch order
  // The next two arrays are only for prediction layers (ModelSpec::predicts).
  std::vector<float> hidden;           // [T, hidden] the hidden state at the position before each token
  std::vector<int32_t> context_begin;  // [S] the first position of the context that a sequence sees; empty: 0

  int64_t num_tokens() const { return static_cast<int64_t>(token_ids.size()); }
  int64_t num_sequences() const { return static_cast<int64_t>(context_len.size()); }

  /// Empties the arrays without freeing their memory.
  void Clear();
  /// Refills the arrays from the batch. Their storage is reused between steps.
  void Build(const SequenceTable& table, const std::vector<BatchMember>& batch, int block_size);
  /// Refills the arrays with rows [row, row + count) of the slot's text. All tokens attend to the whole text (Slice).
  void BuildSlice(const SequenceTable& table, SlotId slot, int row, int count, int block_size);
};

}  // namespace quire

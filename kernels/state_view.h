#pragma once

#include <cstddef>
#include <cstdint>

namespace quire::kernels {

/// Bytes that heads keep of a sequence: [value_heads, key_dim, value_dim] in fp32.
constexpr int64_t HeadStateBytes(int64_t value_heads, int64_t key_dim, int64_t value_dim) {
  return value_heads * key_dim * value_dim * static_cast<int64_t>(sizeof(float));
}

/// The most that heads may have for keys on CUDA, where a column of their states is in the registers of two threads.
inline constexpr int64_t kMaxStateKeyDim = 128;

/// The sequences of a step whose layers keep states, and where the states are. A state is one address space of bytes
/// over the blocks of its sequence, one after another; blocks are those of the KV pool and need not be neighbours. A
/// number may lie across two of them; on CUDA none does, since blocks and offsets are multiples of 4 bytes. A sequence
/// whose first new token stands at position 0 begins with a state of zeros, whatever its blocks hold. A sequence's
/// blocks are written by nobody else during the op. One whose context_len is 0 only pads a launch: it is computed from
/// zeros, and its blocks are neither read nor written.
struct StateView {
  std::byte* pool;        // block 0
  int64_t block_stride;   // bytes of a block
  const int32_t* blocks;  // [num_sequences, blocks_per_state]
  int64_t blocks_per_state;
  int64_t offset;              // bytes of a state before the part that an op reads and writes
  const int32_t* query_start;  // [num_sequences + 1], query_start[0] == 0: the rows of each sequence's new tokens
  const int32_t* context_len;  // [num_sequences], the new tokens counted in
  int64_t num_sequences;

  // Where the host can read the arrays.
  int64_t new_tokens(int64_t sequence) const { return query_start[sequence + 1] - query_start[sequence]; }
  bool pads(int64_t sequence) const { return context_len[sequence] == 0; }
  bool begins(int64_t sequence) const { return context_len[sequence] <= new_tokens(sequence); }
  /// True when a state's blocks hold so many bytes of an op.
  bool Holds(int64_t bytes) const { return offset >= 0 && offset + bytes <= blocks_per_state * block_stride; }
};

}  // namespace quire::kernels

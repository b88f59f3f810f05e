#pragma once

#include <cstddef>
#include <cstdint>

namespace quire::kernels {

/// Returns the bytes of one sequence's head states in a layer: [value_heads, key_dim, value_dim] fp32.
constexpr int64_t HeadStateBytes(int64_t value_heads, int64_t key_dim, int64_t value_dim) {
  return value_heads * key_dim * value_dim * static_cast<int64_t>(sizeof(float));
}

/// The largest key_dim on CUDA, where two threads hold a column of a state in registers.
inline constexpr int64_t kMaxStateKeyDim = 128;

/// The states of a step's sequences. A state is a contiguous byte address space over a list of KV pool blocks, which
/// need not be neighbours. A number may straddle two blocks on the CPU; on CUDA none does, because blocks and offsets
/// are multiples of 4 bytes. A sequence whose first new token has position 0 begins with a zero state, whatever its
/// blocks contain. Nothing else may write a sequence's blocks during the operation. A sequence with context_len 0 only
/// pads a launch: its state counts as zeros, and its blocks are neither read nor written.
struct StateView {
  std::byte* pool;        // the address of block 0
  int64_t block_stride;   // bytes per block
  const int32_t* blocks;  // [num_sequences, blocks_per_state]
  int64_t blocks_per_state;
  int64_t offset;              // bytes of a state that precede the part of this operation
  const int32_t* query_start;  // [num_sequences + 1], query_start[0] == 0: rows of each sequence's new tokens
  const int32_t* context_len;  // [num_sequences], including the new tokens
  int64_t num_sequences;
  /// [num_sequences] Not 0: the operation computes from the sequence's state and leaves the state as it is. If `held`
  /// is null, the operation advances all states. On CUDA it must be null.
  const int32_t* held = nullptr;
  /// The number of bytes, from the start of each block, that belong to the address space; 0: all bytes of a block. On
  /// CUDA it must be 0.
  int64_t bytes_of_block = 0;

  // The functions below read the arrays, so they work only if the arrays are in host memory.
  int64_t new_tokens(int64_t sequence) const { return query_start[sequence + 1] - query_start[sequence]; }
  bool pads(int64_t sequence) const { return context_len[sequence] == 0; }
  bool holds(int64_t sequence) const { return held != nullptr && held[sequence] != 0; }
  bool begins(int64_t sequence) const { return context_len[sequence] <= new_tokens(sequence); }
  int64_t used_bytes() const { return bytes_of_block > 0 ? bytes_of_block : block_stride; }
  /// True if a state has room for `bytes` bytes from `offset` on.
  bool Holds(int64_t bytes) const { return offset >= 0 && offset + bytes <= blocks_per_state * used_bytes(); }
};

}  // namespace quire::kernels

#pragma once

#include "kernels/state_view.h"

namespace quire::kernels::QUIRE_ISA {

/// Calls copy(address, bytes already copied, count) for bytes [at, at + count) of an op's part of a sequence's state,
/// once for each block in which these bytes lie.
template <class Copy>
inline void ForStateBytes(const StateView& state, int64_t sequence, int64_t at, int64_t count, const Copy& copy) {
  const int32_t* blocks = state.blocks + sequence * state.blocks_per_state;
  const int64_t size = state.used_bytes();
  at += state.offset;
  for (int64_t done = 0; done < count;) {
    const int64_t place = at + done, within = place % size;
    const int64_t there = count - done < size - within ? count - done : size - within;
    copy(state.pool + blocks[place / size] * state.block_stride + within, done, there);
    done += there;
  }
}

/// Reads `count` floats of a state from byte `at` on. Reads zeros for a sequence that begins.
inline void ReadState(const StateView& state, int64_t sequence, int64_t at, int64_t count, float* to) {
  const auto bytes = count * static_cast<int64_t>(sizeof(float));
  if (state.begins(sequence)) {
    __builtin_memset(to, 0, static_cast<unsigned long>(bytes));
    return;
  }
  ForStateBytes(state, sequence, at, bytes, [&](const std::byte* from, int64_t done, int64_t there) {
    __builtin_memcpy(reinterpret_cast<std::byte*>(to) + done, from, static_cast<unsigned long>(there));
  });
}

inline void WriteState(const StateView& state, int64_t sequence, int64_t at, int64_t count, const float* from) {
  if (state.pads(sequence) || state.holds(sequence)) return;
  const auto bytes = count * static_cast<int64_t>(sizeof(float));
  ForStateBytes(state, sequence, at, bytes, [&](std::byte* to, int64_t done, int64_t there) {
    __builtin_memcpy(to, reinterpret_cast<const std::byte*>(from) + done, static_cast<unsigned long>(there));
  });
}

}  // namespace quire::kernels::QUIRE_ISA

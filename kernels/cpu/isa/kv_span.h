#pragma once

#include "kernels/cpu/isa/fetch.h"
#include "kernels/cpu/isa/kv_numbers.h"
#include "kernels/cpu/isa/query_reach.h"
#include "kernels/cpu/isa/table.h"

// Attention reads keys and values in spans of a few blocks, as floats, halves, or bytes with scales.
namespace quire::kernels::QUIRE_ISA {

/// The limit of slots in a span of several blocks. The slots of a span enter a row's running softmax together. A span
/// has as many blocks as fit into kSpanSlots slots. A block is a span of its own if its size is not a multiple of the
/// vector length, or is at least kSpanSlots.
inline constexpr int64_t kSpanSlots = 64;
inline constexpr int64_t kMostBlocks = kSpanSlots / kLanes, kMostVectors = kMaxBlockSize / kLanes;

inline constexpr float kMasked = -1e30f;  // far below any score, but finite, so that differences stay finite

inline int64_t PadToLanes(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

inline int64_t SlotsOfSpan(const KvCacheView& cache) {
  const bool several = cache.block_size % kLanes == 0 && cache.block_size < kSpanSlots;
  return several ? kSpanSlots / cache.block_size * cache.block_size : cache.block_size;
}

/// A few consecutive blocks of a sequence, with numbers of type T. Pointers to blocks that no query of the item sees
/// are valid addresses in the cache with meaningless contents. Pointers to scales are meaningless for numbers without
/// scales.
template <class T>
struct Span {
  int64_t dim, block_size;
  int64_t slots;                           // number of slots in all blocks
  int64_t padded;                          // slots rounded up to whole vectors
  const T* keys[kMostVectors];             // per vector of slots: [head_dim], block_size numbers apart
  const float* key_scales[kMostVectors];   // per vector of slots: the scales of their keys
  const T* values[kMostBlocks];            // per block: [block_size, head_dim]
  const float* value_scales[kMostBlocks];  // per block: the values' scales [block_size]
  const Span* next;                        // span to prefetch while this span is computed; null: none
};

/// Prefetches one vector's share of the keys of its block.
template <class T>
void FetchKeys(const Span<T>& span, int64_t vector) {
  const int64_t of_block = vector % (PadToLanes(span.block_size) / kLanes) * kLanes;
  const int64_t slots = Least(kLanes, span.block_size - of_block);
  Fetch(span.keys[vector] + of_block * (span.dim - 1), slots * span.dim * static_cast<int64_t>(sizeof(T)));
}

/// Prefetches the part of a block's values that belongs to dimensions [d, d + dims). All such parts together cover the
/// block.
template <class T>
void FetchValues(const Span<T>& span, int64_t block, int64_t d, int64_t dims) {
  Fetch(span.values[block] + d * span.block_size, dims * span.block_size * static_cast<int64_t>(sizeof(T)));
}

/// Slots [begin, end) of a span.
struct Visible {
  int64_t begin, end;
};

template <class T>
Span<T> EmptySpan(const KvCacheView& cache) {
  Span<T> span;
  span.dim = cache.head_dim;
  span.block_size = cache.block_size;
  span.slots = SlotsOfSpan(cache);
  span.padded = PadToLanes(span.slots);
  for (auto& keys : span.keys) keys = reinterpret_cast<const T*>(cache.keys);
  for (auto& values : span.values) values = reinterpret_cast<const T*>(cache.values);
  return span;
}

/// Sets the span's pointers to the sequence's blocks from first_block on, as far as `visible` covers them.
template <class T>
void OpenSpan(const PagedAttentionParams& p, int64_t sequence, int64_t kv_head, int64_t first_block, Visible visible,
              Span<T>& span) {
  const KvCacheView& cache = p.cache;
  const int64_t vectors = PadToLanes(cache.block_size) / kLanes;
  const int64_t scales = kScaled<T> ? cache.block_size * static_cast<int64_t>(sizeof(float)) : 0;
  const int32_t* table = p.block_tables + sequence * p.table_stride + first_block;
  for (int64_t b = visible.begin / cache.block_size; b * cache.block_size < visible.end; ++b) {
    const int64_t offset = table[b] * cache.block_stride + kv_head * cache.head_bytes();
    span.values[b] = reinterpret_cast<const T*>(cache.values + offset + scales);
    span.value_scales[b] = reinterpret_cast<const float*>(cache.values + offset);
    for (int64_t v = 0; v < vectors; ++v) {
      span.keys[b * vectors + v] = reinterpret_cast<const T*>(cache.keys + offset + scales) + v * kLanes;
      span.key_scales[b * vectors + v] = reinterpret_cast<const float*>(cache.keys + offset) + v * kLanes;
    }
  }
}

}  // namespace quire::kernels::QUIRE_ISA

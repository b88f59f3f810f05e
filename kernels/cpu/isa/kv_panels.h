#pragma once

#include "kernels/cpu/isa/kv_span.h"
#include "kernels/cpu/isa/row_block.h"

// Keys and values widened to floats, for items with many rows.
namespace quire::kernels::QUIRE_ISA {

/// A span's keys and values as floats, and a block's weights for them.
struct Panels {
  float* keys;          // [head_dim, padded slots], scales not applied
  float* values;        // [slots, padded head_dim], scales not applied
  float* key_scales;    // [padded slots], for numbers with scales
  float* value_scales;  // [padded slots]
  float* weights;       // [padded slots, kBlockRows]: scores, then weights
};

inline int64_t FloatsOfPanels(int64_t dim, int64_t padded_slots) {
  return padded_slots * (dim + PadToLanes(dim) + 2 + kBlockRows);
}

inline Panels CarvePanels(float* scratch, int64_t dim, int64_t padded_slots) {
  float* values = scratch + padded_slots * dim;
  float* key_scales = values + padded_slots * PadToLanes(dim);
  return {scratch, values, key_scales, key_scales + padded_slots, key_scales + 2 * padded_slots};
}

/// Prefetches one of `shares` equal parts of a span: part number `share`.
template <class T>
void FetchShare(const Span<T>& span, int64_t share, int64_t shares) {
  const int64_t vectors = span.padded / kLanes, blocks = span.slots / span.block_size;
  for (int64_t v = vectors * share / shares; v < vectors * (share + 1) / shares; ++v) FetchKeys(span, v);
  for (int64_t b = blocks * share / shares; b < blocks * (share + 1) / shares; ++b) FetchValues(span, b, 0, span.dim);
}

/// Fills the panels with the given slots of the span.
template <class T>
void Widen(const Span<T>& span, Visible slots, const Panels& panels) {
  for (int64_t vector = slots.begin / kLanes; vector * kLanes < slots.end; ++vector) {
    const T* from = span.keys[vector];
    const int64_t there = Least(kLanes, span.slots - vector * kLanes);
    float* to = panels.keys + vector * kLanes;
    for (int64_t d = 0; d < span.dim; ++d, from += span.block_size, to += span.padded)
      Store(to, there == kLanes ? LoadNumbers(from) : LoadNumbers(from, there));
    if constexpr (kScaled<T>) {
      const float* scales = span.key_scales[vector];
      Store(panels.key_scales + vector * kLanes, there == kLanes ? Load(scales) : LoadPart(scales, there));
    }
  }
  for (int64_t block = slots.begin / span.block_size, slot = slots.begin; slot < slots.end; ++block) {
    const int64_t first = block * span.block_size, end = Least(slots.end, first + span.block_size);
    for (; slot < end; ++slot) {
      const T* from = span.values[block] + (slot - first) * span.dim;
      float* to = panels.values + slot * PadToLanes(span.dim);
      int64_t d = 0;
      for (; d + kLanes <= span.dim; d += kLanes) Store(to + d, LoadNumbers(from + d));
      if (d < span.dim) Store(to + d, LoadNumbers(from + d, span.dim - d));
      if constexpr (kScaled<T>) panels.value_scales[slot] = span.value_scales[block][slot - first];
    }
  }
}

}  // namespace quire::kernels::QUIRE_ISA

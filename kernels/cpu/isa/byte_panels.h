#pragma once

#include "kernels/cpu/isa/kv_panels.h"
#include "kernels/cpu/isa/rounding.h"

// Attention on keys, values and weights as bytes, four bytes to a lane. Integer sums of products of bytes are exact, so
// the results are the same whether lanes are rows, slots or dimensions.
namespace quire::kernels::QUIRE_ISA {

inline constexpr float kQuerySteps = 127, kWeightSteps = 255;

/// Rounds a block's queries in place to bytes plus kRaised. `query` then begins with [head_dim / 4, kBlockRows] lanes
/// of four bytes.
inline void RoundQueries(const RowBlock& block, int64_t dim) {
  for (int64_t at = 0; at < kBlockRows; at += kLanes) {
    float* const query = block.query + at;
    Vec largest = {};
    for (int64_t d = 0; d < dim; ++d) largest = LargerMagnitude(Load(query + d * kBlockRows), largest);
    const Steps steps = StepsTo(largest, kQuerySteps);
    Store(block.step + at, steps.size);
    for (int64_t d = 0; d < dim; d += 4) {
      IntVec quad = {};
      for (int i = 0; i < 4; ++i)
        quad |= (RoundToInts(Load(query + (d + i) * kBlockRows) * steps.of_one) + kRaised) << (8 * i);
      Store(query + d / 4 * kBlockRows, reinterpret_cast<Vec>(quad));
    }
  }
}

/// A span's keys and values as bytes, and a block's weights for them.
struct BytePanels {
  int32_t* keys;        // [head_dim / 4, padded slots]
  int32_t* key_totals;  // [padded slots] sum of a key's bytes
  int32_t* values;      // [padded slots / 4, head_dim]
  float* key_scales;    // [padded slots]
  float* value_scales;  // [padded slots]
  // [padded slots, kBlockRows]: first a block's scores, then its weights. Last, the beginning of this memory holds the
  // weights as bytes, four slots to a lane: [padded slots / 4, kBlockRows].
  float* weights;
};

/// Places the panels in scratch memory. The memory has room for panels of floats, which are larger.
inline BytePanels CarveBytePanels(float* scratch, int64_t dim, int64_t padded_slots) {
  auto* const keys = reinterpret_cast<int32_t*>(scratch);
  int32_t* const totals = keys + padded_slots * dim / 4;
  int32_t* const values = totals + padded_slots;
  auto* const scales = reinterpret_cast<float*>(values + padded_slots * dim / 4);
  return {keys, totals, values, scales, scales + padded_slots, scales + 2 * padded_slots};
}

/// Fills the panels with the given slots of the span.
inline void Widen(const Span<Byte>& span, Visible slots, const BytePanels& panels) {
  const auto store = [](int32_t* to, IntVec quads) { __builtin_memcpy(to, &quads, sizeof(quads)); };
  const IntVec ones = IntVec{} + 0x01010101;
  for (int64_t vector = slots.begin / kLanes; vector * kLanes < slots.end; ++vector) {
    const int8_t* from = &span.keys[vector]->number;
    IntVec total = {};
    for (int64_t d = 0; d < span.dim; d += 4) {
      const IntVec quads = LoadQuads(from + d * span.block_size, span.block_size);
      AddByteQuads(total, reinterpret_cast<CellVec>(ones), quads);
      store(panels.keys + d / 4 * span.padded + vector * kLanes, quads);
    }
    store(panels.key_totals + vector * kLanes, total);
    Store(panels.key_scales + vector * kLanes, Load(span.key_scales[vector]));
  }
  for (int64_t slot = slots.begin / 4 * 4; slot < slots.end; slot += 4) {
    const int64_t block = slot / span.block_size, of_block = slot % span.block_size;
    const int8_t* from = &span.values[block]->number + of_block * span.dim;
    for (int64_t d = 0; d < span.dim; d += kLanes)
      store(panels.values + slot / 4 * span.dim + d, LoadQuads(from + d, span.dim));
    __builtin_memcpy(panels.value_scales + slot, span.value_scales[block] + of_block, 4 * sizeof(float));
  }
}

/// Rounds the weights of a vector of rows to bytes in place, and returns each row's step size. In every four
/// neighbouring slots of which some are visible, the weights of the others must be 0.
inline Vec RoundWeights(Visible slots, float* weights) {
  Vec largest = {};
  for (int64_t slot = slots.begin; slot < slots.end; ++slot)
    largest = LargerMagnitude(Load(weights + slot * kBlockRows), largest);
  const Steps steps = StepsTo(largest, kWeightSteps);
  for (int64_t slot = slots.begin; slot < slots.end; slot += 4) {
    IntVec quad = {};
    for (int i = 0; i < 4; ++i) quad |= RoundToInts(Load(weights + (slot + i) * kBlockRows) * steps.of_one) << (8 * i);
    Store(weights + slot / 4 * kBlockRows, reinterpret_cast<Vec>(quad));
  }
  return steps.size;
}

}  // namespace quire::kernels::QUIRE_ISA

#pragma once

#include "kernels/cpu/isa/table.h"
#include "kernels/cpu/isa/vec.h"

// Blocks of attention rows in which each lane is a row.
namespace quire::kernels::QUIRE_ISA {

/// The number of vectors of rows that share each loaded number of a key or value.
inline constexpr int kRowVectors = kLanes == 16 ? 3 : 2;
inline constexpr int64_t kBlockRows = int64_t{kRowVectors} * kLanes;

/// The numbers that are added to scores by head and distance (PagedAttentionParams::relative_bias).
struct RelativeBias {
  const float* table;  // [heads, 2 * reach + 1], or null
  int64_t reach;

  /// Returns the number for a key that is `distance` positions after the query (negative: before the query). Distances
  /// beyond `reach` count as `reach`.
  float Of(int64_t head, int64_t distance) const {
    return table[head * (2 * reach + 1) + reach + Most(-reach, Least(reach, distance))];
  }
};
inline RelativeBias BiasOf(const PagedAttentionParams& p) { return {p.relative_bias, p.relative_reach}; }

/// Returns -|distance|, the factor of ALiBi's slopes.
inline Vec Downhill(Vec distance) { return -Max(distance, -distance); }

/// A block of rows that visit keys and values together, one row per lane. A row is a query with one query head of the
/// KV head; rows are ordered by query. Lanes beyond the last row repeat the last row.
struct RowBlock {
  float* query;          // [head_dim, kBlockRows], scaled
  float* out;            // [head_dim, kBlockRows] sum of weight * value, relative to max
  float* max;            // [kBlockRows] each row's largest score until now
  float* sum;            // [kBlockRows] sum of weights, relative to max
  float* slope;          // [kBlockRows] ALiBi's slopes
  float* step;           // [kBlockRows] value of one step of the query's bytes; only for byte products
  int32_t* place;        // [kBlockRows] the query's position
  int32_t* head;         // [kBlockRows] the query's head
  int64_t first, count;  // range of the item's rows
};

inline int64_t FloatsOfBlock(int64_t dim) { return (2 * dim + 6) * kBlockRows; }

inline RowBlock CarveBlock(float* scratch, int64_t dim, int64_t index, int64_t rows) {
  float* query = scratch + index * FloatsOfBlock(dim);
  float* out = query + dim * kBlockRows;
  float* max = out + dim * kBlockRows;
  const int64_t first = index * kBlockRows;
  return {query,
          out,
          max,
          max + kBlockRows,
          max + 2 * kBlockRows,
          max + 3 * kBlockRows,
          reinterpret_cast<int32_t*>(max + 4 * kBlockRows),
          reinterpret_cast<int32_t*>(max + 5 * kBlockRows),
          first,
          Least(kBlockRows, rows - first)};
}

/// Adds the relative position bias to the scores of slots [begin, end). scores: [slots, kBlockRows]. Slot i belongs to
/// the key at position start + i.
void AddBias(const RelativeBias& bias, const RowBlock& block, int64_t start, int64_t begin, int64_t end, float* scores);

/// Loads the block's queries into lanes and initialises their softmax.
void BeginBlock(const PagedAttentionParams& p, const AttentionItem& item, const RowBlock& block);

/// Writes the lanes' outputs to the rows of the result.
void EndBlock(const PagedAttentionParams& p, const AttentionItem& item, const RowBlock& block);

}  // namespace quire::kernels::QUIRE_ISA

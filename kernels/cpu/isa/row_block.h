#pragma once

#include "kernels/cpu/isa/table.h"
#include "kernels/cpu/isa/vec.h"

// Rows of attention as lanes.
namespace quire::kernels::QUIRE_ISA {

/// Vectors of rows that share every number of a key or value that is loaded.
inline constexpr int kRowVectors = kLanes == 16 ? 3 : 2;
inline constexpr int64_t kBlockRows = int64_t{kRowVectors} * kLanes;

/// Rows that meet keys and values together, a lane each. A row is a query and one of the query heads that the kv head
/// serves, ordered by query; lanes beyond the last row repeat it.
struct RowBlock {
  float* query;          // [head_dim, kBlockRows], scaled
  float* out;            // [head_dim, kBlockRows] sum of weight * value
  float* max;            // [kBlockRows]
  float* sum;            // [kBlockRows] of weights, which as `out` are relative to max
  float* slope;          // [kBlockRows] of ALiBi
  float* step;           // [kBlockRows] of the query's bytes, if it is made of them
  int32_t* place;        // [kBlockRows] the query's position
  int64_t first, count;  // of the item's rows
};

inline int64_t FloatsOfBlock(int64_t dim) { return (2 * dim + 5) * kBlockRows; }

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
          first,
          Least(kBlockRows, rows - first)};
}

/// Rows of the queries become lanes, which have seen nothing yet.
void BeginBlock(const PagedAttentionParams& p, const AttentionItem& item, const RowBlock& block);

/// Lanes become rows of the result.
void EndBlock(const PagedAttentionParams& p, const AttentionItem& item, const RowBlock& block);

}  // namespace quire::kernels::QUIRE_ISA

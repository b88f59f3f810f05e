#pragma once

#include "kernels/cpu/isa/amx/span_tiles.h"

// The rows of an attention item for AMX tiles: their arrays in scratch memory, and which cached tokens each row sees.
namespace quire::kernels::QUIRE_ISA {

/// The number of tiles of rows under way at a time: one has its scores computed, one its softmax, one its outputs.
inline constexpr int64_t kTilesAtOnce = 3;

/// The rows of an item, ordered by query, then query head. Each row has its running softmax. A tile may begin at any
/// row, so it may reach past the last row; the arrays are padded for this.
struct Rows {
  std::byte* query;    // [head_dim / 32, term, padded rows] rows of tiles
  float* out;          // [padded rows, head_dim] sum of weight * value, relative to max
  float* sum;          // [padded rows, kLanes] sums of weights by lanes, relative to max
  float* max;          // [padded rows] largest score of the slots visited until now
  float* slope;        // [padded rows] ALiBi's slopes
  float* place;        // [padded rows] the query's position
  std::byte* weights;  // [kTilesAtOnce, slots / 16] tiles of scores or weights (Sight)
  int64_t dim, padded;
  int64_t of_tile = kTileRows;  // rows of the tile registers

  /// Returns row `row` of the queries' upper (`term` 0) or lower (1) terms, dimensions [32 * step, 32 * step + 32).
  std::byte* Query(int64_t step, int term, int64_t row) const {
    return query + ((step * kTwoTerms + term) * padded + row) * kPairBytes;
  }
};

inline int64_t MaxRows(const PagedAttentionParams& p) {
  return PadToLanes(Most(kPrefillRows, kAttentionTile * p.num_heads)) + kTileRows;
}

inline int64_t BytesOfWeights(const PagedAttentionParams& p) {
  return PadToSteps(SlotsOfSpan(p.cache)) / kLanes * kTileBytes;
}
inline int64_t BytesOfRows(const PagedAttentionParams& p) {
  constexpr int64_t kNumber = sizeof(float);
  return kTilesAtOnce * BytesOfWeights(p) + MaxRows(p) * (2 * p.cache.head_dim + kLanes + 3) * kNumber;
}

inline Rows CarveRows(const PagedAttentionParams& p, std::byte* scratch) {
  const int64_t rows = MaxRows(p), dim = p.cache.head_dim;
  auto* const query = reinterpret_cast<float*>(scratch + kTilesAtOnce * BytesOfWeights(p));
  float* const out = query + rows * dim;
  float* const sum = out + rows * dim;
  float* const max = sum + rows * kLanes;
  return {reinterpret_cast<std::byte*>(query), out, sum, max, max + rows, max + 2 * rows, scratch, dim, rows};
}

/// A run of consecutive queries of one sequence among the rows.
struct Place {
  int64_t group;           // query heads of the KV head
  int64_t first_row;       // row of the first query's first head
  int64_t num_queries;     // consecutive queries
  int64_t first_position;  // position of the first query
  int64_t window, ahead, context;

  int64_t num_rows() const { return num_queries * group; }
};

/// Up to kTileRows rows during one span, and the span's slots (cached tokens) that they see: row r sees [begin[r],
/// end[r]), and all rows see the slots in `all`. `steps` is the range of steps of 32 slots that contains every slot
/// seen by some row; it is empty if no row sees any slot.
struct Sight {
  int64_t row = 0, count = 0;
  int64_t begin[kTileRows], end[kTileRows];
  Visible all{}, steps{};
  /// [slots / 16] tiles of scores. Later the two terms of 32 slots' weights overwrite the two tiles of these scores.
  std::byte* weights = nullptr;

  bool SeesAny() const { return steps.begin < steps.end; }
  std::byte* Weights(int64_t step) const { return weights + step * kTwoTerms * kTileBytes; }
  float* Scores(int64_t vector, int64_t r) const {
    return reinterpret_cast<float*>(weights + vector * kTileBytes + r * kPairBytes);
  }
};

/// Returns which slots of a span the place's rows [first, first + kTileRows) see. Rows past the place's last row are
/// left out.
inline Sight SightOf(const Place& place, int64_t first, int64_t start, int64_t slots, const Rows& rows) {
  Sight sight;
  sight.count = Least(kTileRows, place.num_rows() - first);
  if (sight.count <= 0) return sight;
  sight.row = place.first_row + first;
  sight.weights = rows.weights + first / kTileRows % kTilesAtOnce * (PadToSteps(slots) / kLanes) * kTileBytes;
  int64_t query = first / place.group, head = first % place.group;
  for (int64_t r = 0; r < sight.count; ++r) {
    const int64_t past_self = place.first_position + query + 1 - start;
    sight.begin[r] = Most(past_self - place.window, 0);
    sight.end[r] = Least(past_self + place.ahead, Least(slots, place.context - start));
    if (++head == place.group) head = 0, ++query;
  }
  sight.all = {sight.begin[sight.count - 1], sight.end[0]};
  const Visible any = {sight.begin[0], sight.end[sight.count - 1]};
  if (any.begin < any.end) sight.steps = {any.begin / kPairedNumbers, PadToSteps(any.end) / kPairedNumbers};
  return sight;
}

}  // namespace quire::kernels::QUIRE_ISA

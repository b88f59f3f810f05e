#include "kernels/cpu/isa/functions.h"
#include "kernels/cpu/isa/vec.h"

namespace quire::kernels::QUIRE_ISA {

namespace {

constexpr float kMasked = -1e30f;  // far below any score, and finite, so that differences stay finite
constexpr int kRowTile = 4;        // query rows that share one pass over a block

/// The rows of one item: every query head of the kv head's group, for every query of the tile, in that order.
/// Each row carries its running softmax: out = sum(p * v) and sum = sum(p), both relative to max.
struct Rows {
  float* query;   // [num_rows, head_dim], scaled
  float* out;     // [num_rows, head_dim]
  float* max;     // [num_rows]
  float* sum;     // [num_rows]
  float* scores;  // [kRowTile, padded block]
};

/// The slots of one block that a query sees: [begin, end), never empty.
struct Visible {
  int64_t begin, end;
};

int64_t PadToLanes(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }
int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t Most(int64_t a, int64_t b) { return a > b ? a : b; }
int64_t MaxRows(const PagedAttentionParams& p) { return kAttentionTile * p.num_heads; }

Rows CarveScratch(const PagedAttentionParams& p, float* scratch) {
  const int64_t rows = MaxRows(p), dim = p.cache.head_dim;
  float* out = scratch + rows * dim;
  float* max = out + rows * dim;
  return {scratch, out, max, max + rows, max + 2 * rows};
}

/// scores[r, j] = query[r, :] . key[:, j] for every slot j of the block, summed over the head dimension in order.
template <int R>
void Scores(const float* query, int64_t dim, const float* keys, int64_t block_size, float* scores) {
  const int64_t padded = PadToLanes(block_size);
  int64_t j = 0;
  for (; j + kLanes <= block_size; j += kLanes) {
    Vec acc[R] = {};
    for (int64_t d = 0; d < dim; ++d) {
      const Vec key = Load(keys + d * block_size + j);
      for (int r = 0; r < R; ++r) acc[r] += key * query[r * dim + d];
    }
    for (int r = 0; r < R; ++r) Store(scores + r * padded + j, acc[r]);
  }
  if (j == block_size) return;
  Vec acc[R] = {};
  for (int64_t d = 0; d < dim; ++d) {
    const Vec key = LoadPart(keys + d * block_size + j, block_size - j);
    for (int r = 0; r < R; ++r) acc[r] += key * query[r * dim + d];
  }
  for (int r = 0; r < R; ++r) Store(scores + r * padded + j, acc[r]);
}

/// Turns the scores of one row into weights relative to the new maximum; slots that are not visible weigh nothing.
/// (A visible slot lifts the maximum off kMasked; without one, every masked slot would weigh exp(0).)
/// Returns the factor by which the row's earlier sum and output shrink.
float Reweigh(float* scores, int64_t padded, Visible visible, float* row_max, float* row_sum) {
  for (int64_t j = 0; j < visible.begin; ++j) scores[j] = kMasked;
  for (int64_t j = visible.end; j < padded; ++j) scores[j] = kMasked;
  Vec top = Splat(*row_max);
  for (int64_t j = 0; j < padded; j += kLanes) top = Max(Load(scores + j), top);
  const float max = MaxLane(top);
  Vec sum = {};
  for (int64_t j = 0; j < padded; j += kLanes) {
    const Vec weight = Exp(Load(scores + j) - max);
    Store(scores + j, weight);
    sum += weight;
  }
  const float shrink = Exp1(*row_max - max);
  *row_sum = *row_sum * shrink + Sum(sum);
  *row_max = max;
  return shrink;
}

/// out[r, :] = out[r, :] * shrink[r] + sum over visible slots j of weight[r, j] * value[j, :], in the order of j.
template <int R>
void Accumulate(const float* weights, int64_t padded, const float* shrink, const float* values, int64_t dim,
                Visible visible, float* out) {
  int64_t d = 0;
  for (; d + kLanes <= dim; d += kLanes) {
    Vec acc[R];
    for (int r = 0; r < R; ++r) acc[r] = Load(out + r * dim + d) * shrink[r];
    for (int64_t j = visible.begin; j < visible.end; ++j) {
      const Vec value = Load(values + j * dim + d);
      for (int r = 0; r < R; ++r) acc[r] += value * weights[r * padded + j];
    }
    for (int r = 0; r < R; ++r) Store(out + r * dim + d, acc[r]);
  }
  for (; d < dim; ++d) {
    for (int r = 0; r < R; ++r) {
      float acc = out[r * dim + d] * shrink[r];
      for (int64_t j = visible.begin; j < visible.end; ++j) acc += values[j * dim + d] * weights[r * padded + j];
      out[r * dim + d] = acc;
    }
  }
}

/// One block for R rows, all of which see its `visible` slots.
template <int R>
void VisitBlock(const Rows& rows, int64_t row, Visible visible, const float* keys, const float* values, int64_t dim,
                int64_t block_size) {
  const int64_t padded = PadToLanes(block_size);
  float shrink[R];
  Scores<R>(rows.query + row * dim, dim, keys, block_size, rows.scores);
  for (int r = 0; r < R; ++r) {
    shrink[r] = Reweigh(rows.scores + r * padded, padded, visible, rows.max + row + r, rows.sum + row + r);
  }
  Accumulate<R>(rows.scores, padded, shrink, values, dim, visible, rows.out + row * dim);
}

void VisitBlockRows(int64_t count, const Rows& rows, int64_t row, Visible visible, const float* keys,
                    const float* values, int64_t dim, int64_t block_size) {
  for (; count >= kRowTile; count -= kRowTile, row += kRowTile) {
    VisitBlock<kRowTile>(rows, row, visible, keys, values, dim, block_size);
  }
  if (count == 3) VisitBlock<3>(rows, row, visible, keys, values, dim, block_size);
  if (count == 2) VisitBlock<2>(rows, row, visible, keys, values, dim, block_size);
  if (count == 1) VisitBlock<1>(rows, row, visible, keys, values, dim, block_size);
}

}  // namespace

int64_t AttentionScratch(const PagedAttentionParams& p) {
  return MaxRows(p) * (2 * p.cache.head_dim + 2) + kRowTile * PadToLanes(p.cache.block_size);
}

void AttentionTile(const PagedAttentionParams& p, const AttentionItem& item, float* scratch) {
  const KvCacheView& cache = p.cache;
  const int64_t dim = cache.head_dim, block_size = cache.block_size;
  const int64_t first_head = p.head_start[item.kv_head];
  const int64_t group = p.head_start[item.kv_head + 1] - first_head;
  const Rows rows = CarveScratch(p, scratch);
  for (int64_t i = 0; i < item.num_queries; ++i) {
    for (int64_t g = 0; g < group; ++g) {
      const int64_t row = i * group + g;
      const float* query = p.queries + (item.first_query + i) * p.query_stride + (first_head + g) * dim;
      for (int64_t d = 0; d < dim; ++d) {
        rows.query[row * dim + d] = query[d] * p.scale;
        rows.out[row * dim + d] = 0.0f;
      }
      rows.max[row] = kMasked;
      rows.sum[row] = 0.0f;
    }
  }

  // Query i of the item stands at position first_position + i.
  const int64_t first_position = p.context_len[item.sequence] - (p.query_start[item.sequence + 1] - item.first_query);
  const int64_t last_position = first_position + item.num_queries - 1;
  const int32_t* table = p.block_tables + item.sequence * p.table_stride;
  const int64_t window = p.window > 0 ? p.window : last_position + 1;
  for (int64_t b = Most(first_position - window + 1, 0) / block_size; b * block_size <= last_position; ++b) {
    const int64_t offset = table[b] * cache.block_stride + item.kv_head * cache.head_floats();
    const float* keys = cache.keys + offset;
    const float* values = cache.values + offset;
    // Query i sees slots [i - to_window, i + to_end) of the block: none where it stands before the block or the
    // block before its window. Those that see all of it share passes; each row's arithmetic is its own either way.
    const int64_t to_end = first_position + 1 - b * block_size, to_window = window - to_end;
    const int64_t end = Least(item.num_queries, block_size + to_window);
    for (int64_t i = Most(1 - to_end, 0); i < end;) {
      const Visible visible = {Most(i - to_window, 0), Least(i + to_end, block_size)};
      const bool whole = visible.begin == 0 && visible.end == block_size;
      const int64_t count = whole ? Least(to_window + 1, end) - i : 1;
      VisitBlockRows(count * group, rows, i * group, visible, keys, values, dim, block_size);
      i += count;
    }
  }

  for (int64_t i = 0; i < item.num_queries; ++i) {
    for (int64_t g = 0; g < group; ++g) {
      const int64_t row = i * group + g;
      float* out = p.out + (item.first_query + i) * p.out_stride + (first_head + g) * dim;
      for (int64_t d = 0; d < dim; ++d) out[d] = rows.out[row * dim + d] / rows.sum[row];
    }
  }
}

}  // namespace quire::kernels::QUIRE_ISA

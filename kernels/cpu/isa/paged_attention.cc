#include "kernels/cpu/isa/byte_panels.h"
#include "kernels/cpu/isa/functions.h"
#include "kernels/cpu/isa/kv_form.h"
#include "kernels/cpu/isa/kv_span.h"
#include "kernels/cpu/isa/row_block.h"
#include "kernels/cpu/isa/soft_cap.h"
#include "kernels/cpu/isa/unrolled.h"
#include "kernels/cpu/isa/vec.h"

namespace quire::kernels::QUIRE_ISA {

namespace {

constexpr int kRowTile = 4;  // query rows that share one pass over a span
constexpr int kFewRows = 8;  // this many rows or fewer compute too briefly to hide the fetch of the next span
constexpr int kColumns = 2;  // vectors that one pass over a span computes at a time for each row

/// The rows of one item, ordered by query, then query head of the KV head's group. Each row has its running softmax:
/// out = sum(p * v) and sum = sum(p), both relative to max.
struct Rows {
  float* query;    // [num_rows, head_dim], scaled
  float* out;      // [num_rows, head_dim] weighted sum of the values visited until now
  float* max;      // [num_rows] largest score visited until now
  float* sum;      // [num_rows] sum of the weights of the same slots
  float* slope;    // [num_rows] ALiBi's slopes; null: no ALiBi
  int32_t* head;   // [num_rows] the query's head
  int32_t* place;  // [num_rows] the query's position
  float* scores;   // [kRowTile, padded slots of a span]
  float soft_cap;
  RelativeBias bias;
};

int64_t MaxRows(const PagedAttentionParams& p) { return kAttentionTile * p.num_heads; }

Rows CarveScratch(const PagedAttentionParams& p, float* scratch) {
  const int64_t rows = MaxRows(p), dim = p.cache.head_dim;
  float* out = scratch + rows * dim;
  float* max = out + rows * dim;
  float* slope = max + 2 * rows;
  auto* const head = reinterpret_cast<int32_t*>(slope + rows);
  return {scratch,
          out,
          max,
          max + rows,
          p.alibi_slopes == nullptr ? nullptr : slope,
          head,
          head + rows,
          slope + 3 * rows,
          p.soft_cap,
          BiasOf(p)};
}

/// A row's query as bytes. The bytes overwrite the beginning of the row's floats.
struct RoundedQuery {
  const int8_t* bytes;  // [head_dim]
  float step;
  int32_t total;  // sum of the bytes
};

RoundedQuery RoundedQueryAt(const float* query, int64_t dim) {
  return {reinterpret_cast<const int8_t*>(query), query[dim / 4], LoadAs<int32_t>(query + dim / 4 + 1)};
}

/// Rounds one query to bytes. RoundQueries (byte_panels.h) does this for a block of rows.
void RoundQuery(float* query, int64_t dim) {
  const Steps steps = StepsTo(Splat(LargestMagnitude(query, dim)), kQuerySteps);
  IntVec total = {};
  auto* const bytes = reinterpret_cast<int8_t*>(query);
  for (int64_t d = 0; d < dim; d += kLanes) {
    const IntVec numbers = RoundToInts(Load(query + d) * steps.of_one);
    const auto narrow = __builtin_convertvector(numbers, SignedByteVec);
    __builtin_memcpy(bytes + d, &narrow, sizeof(narrow));
    total += numbers;
  }
  const int32_t sum = Sum(total);
  query[dim / 4] = steps.size[0];
  __builtin_memcpy(query + dim / 4 + 1, &sum, sizeof(sum));
}

/// A row's weights for a span as bytes. The bytes overwrite the beginning of the row's floats.
struct RoundedWeights {
  const int8_t* bytes;  // [padded slots], unsigned; 0 for unseen slots
  float step;
};

RoundedWeights RoundedWeightsAt(const float* weights, int64_t padded) {
  return {reinterpret_cast<const int8_t*>(weights), weights[padded / 4]};
}

/// Rounds one row's weights to bytes. RoundWeights (byte_panels.h) does this for a block of rows.
void RoundWeightsOfRow(float* weights, Visible visible, int64_t padded) {
  for (int64_t j = 0; j < visible.begin; ++j) weights[j] = 0;
  for (int64_t j = Most(visible.end, 0); j < padded; ++j) weights[j] = 0;
  const Steps steps = StepsTo(Splat(LargestMagnitude(weights, padded)), kWeightSteps);
  auto* const bytes = reinterpret_cast<uint8_t*>(weights);
  for (int64_t j = 0; j < padded; j += kLanes) {
    const auto narrow = __builtin_convertvector(RoundToInts(Load(weights + j) * steps.of_one), SignedByteVec);
    __builtin_memcpy(bytes + j, &narrow, sizeof(narrow));
  }
  weights[padded / 4] = steps.size[0];
}

/// acc[r][c] += products of R queries with the keys of C vectors of slots, summed over the head dimension in order.
template <int R, int C, class T>
QUIRE_INLINE inline void DotProducts(const Span<T>& span, int64_t vector, const float* query, Vec (&acc)[R][C]) {
  const int64_t there = span.slots - vector * kLanes;  // less than a vector only if C is 1
  for (int64_t d = 0; d < span.dim; ++d) {
    Vec key[C];
    Unrolled<C>([&](auto c) QUIRE_INLINE {
      const T* from = span.keys[vector + c] + d * span.block_size;
      key[c] = C > 1 || there >= kLanes ? LoadNumbers(from) : LoadNumbers(from, there);
    });
    Unrolled<R>([&](auto r) QUIRE_INLINE {
      const Vec q = Splat(query[r * span.dim + d]);
      Unrolled<C>([&](auto c) QUIRE_INLINE { acc[r][c] = MulAdd(key[c], q, acc[r][c]); });
    });
  }
}

/// Assigns to acc the same products as the float version of DotProducts, with keys and queries as bytes.
template <int R, int C>
QUIRE_INLINE inline void DotProducts(const Span<Byte>& span, int64_t vector, const float* query, Vec (&acc)[R][C]) {
  RoundedQuery rounded[R];
  IntVec dot[R][C];
  Unrolled<R>([&](auto r) QUIRE_INLINE {
    rounded[r] = RoundedQueryAt(query + r * span.dim, span.dim);
    Unrolled<C>([&](auto c) QUIRE_INLINE { dot[r][c] = IntVec{} - kRaised * rounded[r].total; });
  });
  for (int64_t d = 0; d < span.dim; d += 4) {
    CellVec key[C];  // each byte is raised by kRaised
    Unrolled<C>([&](auto c) QUIRE_INLINE {
      const int8_t* from = &span.keys[vector + c]->number + d * span.block_size;
      key[c] = reinterpret_cast<CellVec>(LoadQuads(from, span.block_size)) ^ 0x8080;
    });
    Unrolled<R>([&](auto r) QUIRE_INLINE {
      const IntVec q = IntVec{} + LoadAs<int32_t>(rounded[r].bytes + d);
      Unrolled<C>([&](auto c) QUIRE_INLINE { AddByteQuads(dot[r][c], key[c], q); });
    });
  }
  Unrolled<R>([&](auto r) QUIRE_INLINE {
    Unrolled<C>([&](auto c)
                    QUIRE_INLINE { acc[r][c] = __builtin_convertvector(dot[r][c], Vec) * Splat(rounded[r].step); });
  });
}

/// scores[r, j] = query[r, :] . key[:, j] for the slots j of C vectors.
template <int R, int C, class T>
QUIRE_INLINE inline void ScoreVectors(const Span<T>& span, int64_t vector, const float* query, float* scores) {
  if (span.next != nullptr) Unrolled<C>([&](auto c) QUIRE_INLINE { FetchKeys(*span.next, vector + c); });
  Vec acc[R][C] = {};
  DotProducts(span, vector, query, acc);
  if constexpr (kScaled<T>) {
    const int64_t there = span.slots - vector * kLanes;
    Unrolled<C>([&](auto c) QUIRE_INLINE {
      const float* scales = span.key_scales[vector + c];
      const Vec scale = C > 1 || there >= kLanes ? Load(scales) : LoadPart(scales, there);
      Unrolled<R>([&](auto r) QUIRE_INLINE { acc[r][c] *= scale; });
    });
  }
  Unrolled<R>([&](auto r) QUIRE_INLINE {
    Unrolled<C>([&](auto c) QUIRE_INLINE { Store(scores + r * span.padded + (vector + c) * kLanes, acc[r][c]); });
  });
}

/// Computes the scores of all vectors that contain a visible slot.
template <int R, class T>
void Scores(const Span<T>& span, Visible visible, const float* query, float* scores) {
  int64_t vector = visible.begin / kLanes;
  for (; (vector + kColumns) * kLanes <= PadToLanes(visible.end) && (vector + kColumns) * kLanes <= span.slots;
       vector += kColumns)
    ScoreVectors<R, kColumns>(span, vector, query, scores);
  for (; vector * kLanes < visible.end; ++vector) ScoreVectors<R, 1>(span, vector, query, scores);
}

/// Adds -slope * |key position - query position| to one row's scores in the vectors of `computed`. `distance`: the
/// span's first position minus the query's position.
void AddSlope(float* scores, Visible computed, float slope, float distance) {
  Vec lanes;
  for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = static_cast<float>(lane);
  for (int64_t j = computed.begin / kLanes * kLanes; j < computed.end; j += kLanes)
    Store(scores + j, MulAdd(Downhill(lanes + (static_cast<float>(j) + distance)), Splat(slope), Load(scores + j)));
}

/// Turns one row's scores in the vectors of `computed` into weights relative to the new maximum; unseen slots get
/// weight 0. Returns the factor by which the row's earlier sum and output shrink. At least one slot must be visible,
/// because otherwise the maximum could stay kMasked, and masked slots would have the weight exp(0).
float Reweigh(float* scores, Visible computed, Visible visible, float* row_max, float* row_sum) {
  const int64_t begin = computed.begin / kLanes * kLanes, end = PadToLanes(computed.end);
  for (int64_t j = begin; j < visible.begin; ++j) scores[j] = kMasked;
  for (int64_t j = visible.end; j < end; ++j) scores[j] = kMasked;
  Vec top = Splat(*row_max);
  for (int64_t j = begin; j < end; j += kLanes) top = Max(Load(scores + j), top);
  const float max = MaxLane(top);
  Vec sum = {};
  for (int64_t j = begin; j < end; j += kLanes) {
    const Vec weight = Exp(Load(scores + j) - max);
    Store(scores + j, weight);
    sum += weight;
  }
  const float shrink = Exp1(*row_max - max);
  *row_sum = *row_sum * shrink + Sum(sum);
  *row_max = max;
  return shrink;
}

/// Multiplies one row's weights[j] by the scale of slot j's value, if the cache's numbers have scales.
template <class T>
void ScaleWeights(const Span<T>& span, Visible visible, float* weights) {
  if constexpr (!kScaled<T>) return;
  for (int64_t block = visible.begin / span.block_size, slot = visible.begin; slot < visible.end; ++block) {
    const float* scales = span.value_scales[block] - block * span.block_size;
    for (const int64_t end = Least(visible.end, (block + 1) * span.block_size); slot < end; ++slot)
      weights[slot] *= scales[slot];
  }
}

/// For C vectors of the head dimension: out[r, :] = out[r, :] * shrink[r] + sum over slots j of weight[r, j] *
/// value[j, :], in the order of j.
template <int R, int C, class T>
QUIRE_INLINE inline void AccumulateVectors(const Span<T>& span, Visible visible, const float* weights,
                                           const float* shrink, int64_t d, float* out) {
  Vec acc[R][C];
  Unrolled<R>([&](auto r) QUIRE_INLINE {
    Unrolled<C>([&](auto c) QUIRE_INLINE { acc[r][c] = Load(out + r * span.dim + d + c * kLanes) * shrink[r]; });
  });
  for (int64_t block = visible.begin / span.block_size, slot = visible.begin; slot < visible.end; ++block) {
    const T* values = span.values[block] - block * span.block_size * span.dim + d;
    if (span.next != nullptr) FetchValues(*span.next, block, d, C * kLanes);
    for (const int64_t end = Least(visible.end, (block + 1) * span.block_size); slot < end; ++slot) {
      Vec value[C];
      Unrolled<C>([&](auto c) QUIRE_INLINE { value[c] = LoadNumbers(values + slot * span.dim + c * kLanes); });
      Unrolled<R>([&](auto r) QUIRE_INLINE {
        const Vec weight = Splat(weights[r * span.padded + slot]);
        Unrolled<C>([&](auto c) QUIRE_INLINE { acc[r][c] = MulAdd(value[c], weight, acc[r][c]); });
      });
    }
  }
  Unrolled<R>([&](auto r) QUIRE_INLINE {
    Unrolled<C>([&](auto c) QUIRE_INLINE { Store(out + r * span.dim + d + c * kLanes, acc[r][c]); });
  });
}

/// Accumulates as AccumulateVectors does, for the last dimensions from d on, which are fewer than a vector has. A whole
/// vector of a slot's values reaches into values of the next slots; these lanes are dropped. It must not reach beyond
/// the block, so the block's last slots have only their own values loaded.
template <int R, class T>
QUIRE_INLINE inline void AccumulateRest(const Span<T>& span, Visible visible, const float* weights, const float* shrink,
                                        int64_t d, float* out) {
  const int64_t rest = span.dim - d, last_slots = (kLanes - rest + span.dim - 1) / span.dim;
  Vec acc[R];
  Unrolled<R>([&](auto r) QUIRE_INLINE { acc[r] = LoadPart(out + r * span.dim + d, rest) * shrink[r]; });
  const auto add = [&](int64_t slot, Vec value) QUIRE_INLINE {
    Unrolled<R>([&](auto r) QUIRE_INLINE { acc[r] = MulAdd(value, Splat(weights[r * span.padded + slot]), acc[r]); });
  };
  for (int64_t block = visible.begin / span.block_size, slot = visible.begin; slot < visible.end; ++block) {
    const T* values = span.values[block] - block * span.block_size * span.dim + d;
    const int64_t end_of_block = (block + 1) * span.block_size, end = Least(visible.end, end_of_block);
    for (const int64_t whole = Least(end, end_of_block - last_slots); slot < whole; ++slot)
      add(slot, LoadNumbers(values + slot * span.dim));
    for (; slot < end; ++slot) add(slot, LoadNumbers(values + slot * span.dim, rest));
  }
  Unrolled<R>([&](auto r) QUIRE_INLINE {
    __builtin_memcpy(out + r * span.dim + d, &acc[r], static_cast<unsigned long>(rest) * sizeof(float));
  });
}

template <int R, class T>
void Accumulate(const Span<T>& span, Visible visible, const float* weights, const float* shrink, float* out) {
  int64_t d = 0;
  for (; d + kColumns * kLanes <= span.dim; d += kColumns * kLanes)
    AccumulateVectors<R, kColumns>(span, visible, weights, shrink, d, out);
  for (; d + kLanes <= span.dim; d += kLanes) AccumulateVectors<R, 1>(span, visible, weights, shrink, d, out);
  if (d < span.dim) AccumulateRest<R>(span, visible, weights, shrink, d, out);
}

/// Accumulates as AccumulateVectors does, with bytes, for one vector of the head dimension. Slots that a row does not
/// see have weight 0.
template <int R>
QUIRE_INLINE inline void AccumulateBytes(const Span<Byte>& span, Visible slots, const float* weights,
                                         const float* shrink, int64_t d, float* out) {
  RoundedWeights rounded[R];
  Unrolled<R>([&](auto r) QUIRE_INLINE { rounded[r] = RoundedWeightsAt(weights + r * span.padded, span.padded); });
  IntVec acc[R] = {};
  for (int64_t slot = slots.begin / 4 * 4; slot < slots.end; slot += 4) {
    const int64_t block = slot / span.block_size, of_block = slot % span.block_size;
    const IntVec values = LoadQuads(&span.values[block]->number + of_block * span.dim + d, span.dim);
    if (span.next != nullptr && of_block == 0) FetchValues(*span.next, block, d, kLanes);
    Unrolled<R>([&](auto r) QUIRE_INLINE {
      const IntVec weight = IntVec{} + LoadAs<int32_t>(rounded[r].bytes + slot);
      AddByteQuads(acc[r], reinterpret_cast<CellVec>(weight), values);
    });
  }
  Unrolled<R>([&](auto r) QUIRE_INLINE {
    float* const to = out + r * span.dim + d;
    Store(to, MulAdd(__builtin_convertvector(acc[r], Vec), Splat(rounded[r].step), Load(to) * shrink[r]));
  });
}

/// Accumulates for each row the values that the row sees, in the order of the slots. Slots that all rows see take one
/// pass; other slots are added for each row separately. An unseen slot must be skipped despite its weight 0, because 0
/// * infinity is NaN.
template <int R, class T>
void AccumulateSeen(const Span<T>& span, const Visible* visible, float* weights, float* shrink, float* out) {
  const auto alone = [&](int r, Visible slots) {
    if (slots.begin >= slots.end) return;
    Accumulate<1>(span, slots, weights + r * span.padded, shrink + r, out + r * span.dim);
    shrink[r] = 1;
  };
  const int64_t begin = visible[R - 1].begin, end = Most(visible[0].end, begin);
  for (int r = 0; r < R; ++r) alone(r, {visible[r].begin, Least(begin, visible[r].end)});
  if (begin < end) {
    Accumulate<R>(span, {begin, end}, weights, shrink, out);
    for (int r = 0; r < R; ++r) shrink[r] = 1;
  }
  for (int r = 0; r < R; ++r) alone(r, {end, visible[r].end});
}

/// Does the same as the float version of AccumulateSeen, with bytes. One pass suffices, because unseen slots have
/// weight 0 and bytes are finite.
template <int R, class T>
requires kInBytes<T>
void AccumulateSeen(const Span<T>& span, const Visible* visible, float* weights, float* shrink, float* out) {
  for (int r = 0; r < R; ++r) RoundWeightsOfRow(weights + r * span.padded, visible[r], span.padded);
  for (int64_t d = 0; d < span.dim; d += kLanes)
    AccumulateBytes<R>(span, {visible[0].begin, visible[R - 1].end}, weights, shrink, d, out);
}

/// Processes one span for R rows. The span's first slot has position `start`. Row r sees the slots visible[r]; the
/// ranges of later rows begin and end no earlier.
template <int R, class T>
void VisitRows(const Span<T>& span, int64_t start, const Visible* visible, const Rows& rows, int64_t row) {
  const Visible together = {visible[0].begin, visible[R - 1].end};
  float shrink[R];
  Scores<R>(span, together, rows.query + row * span.dim, rows.scores);
  for (int r = 0; r < R; ++r) {
    float* weights = rows.scores + r * span.padded;
    if (rows.soft_cap > 0) SoftCapAll(weights, together.begin / kLanes * kLanes, together.end, rows.soft_cap);
    if (rows.slope != nullptr)
      AddSlope(weights, together, rows.slope[row + r], static_cast<float>(start - rows.place[row + r]));
    for (int64_t j = together.begin; rows.bias.table != nullptr && j < together.end; ++j)
      weights[j] += rows.bias.Of(rows.head[row + r], start + j - rows.place[row + r]);
    shrink[r] = Reweigh(weights, together, visible[r], rows.max + row + r, rows.sum + row + r);
    ScaleWeights(span, visible[r], weights);
  }
  AccumulateSeen<R, T>(span, visible, rows.scores, shrink, rows.out + row * span.dim);
}

/// A run of consecutive queries of one sequence among an item's rows.
struct Place {
  int64_t group;           // query heads of the KV head
  int64_t first_row;       // row of the first query's first head
  int64_t num_queries;     // consecutive queries
  int64_t first_position;  // position of the first query
  int64_t window;
  int64_t ahead;    // positions after itself that a query sees
  int64_t context;  // number of positions that exist
  int64_t begin;    // first position that a query sees
};

/// Processes the span whose first slot has position `start` for the place's rows.
template <class T>
void VisitSpan(const Place& place, int64_t start, const Span<T>& span, const Rows& rows) {
  // Query i sees slots [i - to_window, i + to_end) of the span, as far as they exist and do not precede place.begin. A
  // query before the span sees none of its slots, nor does a query with a window that begins after the span.
  const int64_t to_self = place.first_position + 1 - start, to_window = place.window - to_self;
  const int64_t to_end = to_self + place.ahead, slots = Least(span.slots, place.context - start);
  const int64_t begin = Most(1 - to_end, 0), end = Least(place.num_queries, span.slots + to_window);
  const int64_t first = Most(place.begin - start, 0);
  Visible visible[kRowTile];
  int64_t query = begin, head = 0;
  for (int64_t row = begin * place.group; row < end * place.group;) {
    const int64_t count = Least(kRowTile, end * place.group - row);
    for (int64_t r = 0; r < count; ++r) {
      visible[r] = {Most(query - to_window, first), Least(query + to_end, slots)};
      if (++head == place.group) head = 0, ++query;
    }
    WithRows<kRowTile>(count, [&]<int R>() { VisitRows<R>(span, start, visible, rows, place.first_row + row); });
    row += count;
  }
}

/// Processes a sequence's slots from `start` (the first slot of a span) to `past_last` for the place's rows.
template <class T>
void VisitSlots(const PagedAttentionParams& p, int64_t sequence, int64_t kv_head, const Place& place, int64_t start,
                int64_t past_last, const Rows& rows) {
  const int64_t slots = SlotsOfSpan(p.cache), first_seen = Most(place.first_position - place.window + 1, place.begin);
  start = Most(start, first_seen / slots * slots);
  if (start >= past_last) return;
  Span<T> spans[2] = {EmptySpan<T>(p.cache), EmptySpan<T>(p.cache)};
  const auto open = [&](int64_t at, Span<T>& span) {
    const Visible visible = {Most(first_seen - at, 0), Least(past_last - at, slots)};
    OpenSpan(p, sequence, kv_head, at / span.block_size, visible, span);
  };
  open(start, spans[0]);
  for (int now = 0; start < past_last; start += slots, now ^= 1) {
    Span<T>& span = spans[now];
    Span<T>& next = spans[now ^ 1];
    if (start + slots < past_last) open(start + slots, next);
    span.next = start + slots < past_last && place.num_queries * place.group <= kFewRows ? &next : nullptr;
    VisitSpan(place, start, span, rows);
  }
}

/// Computes an item with few rows. A row visits the same slots in the same spans whatever other rows are in the item,
/// so its result does not depend on the other members.
template <class T>
void TileOf(const PagedAttentionParams& p, const AttentionItem& item, float* scratch) {
  const int64_t dim = p.cache.head_dim;
  const Rows rows = CarveScratch(p, scratch);
  EachRow(p, item, [&](int64_t row, int64_t sequence, int64_t query, int64_t head) {
    const float* from = p.queries + query * p.query_stride + head * dim;
    for (int64_t d = 0; d < dim; ++d) {
      rows.query[row * dim + d] = from[d] * p.scale;
      rows.out[row * dim + d] = 0.0f;
    }
    if (rows.slope != nullptr) rows.slope[row] = p.alibi_slopes[head];
    rows.head[row] = static_cast<int32_t>(head);
    rows.place[row] = static_cast<int32_t>(PositionOf(p, sequence, query));
    rows.max[row] = p.sinks == nullptr ? kMasked : p.sinks[head];
    rows.sum[row] = p.sinks == nullptr ? 0.0f : 1.0f;
    if constexpr (kInBytes<T>) RoundQuery(rows.query + row * dim, dim);
  });

  const int64_t slots = SlotsOfSpan(p.cache), shared = item.shared_blocks * p.cache.block_size / slots * slots;
  Place place = {
      p.head_start[item.kv_head + 1] - p.head_start[item.kv_head], 0, 0, shared, WindowOf(p), AheadOf(p), shared, 0};
  for (int64_t m = 0; m < item.num_members; ++m) place.num_queries += item.members[m].num_queries;
  VisitSlots<T>(p, item.members[0].sequence, item.kv_head, place, 0, shared, rows);
  for (int64_t m = 0; m < item.num_members; ++m) {
    const AttentionMember& member = item.members[m];
    place.num_queries = member.num_queries;
    place.first_position = PositionOf(p, member.sequence, member.first_query);
    place.context = p.context_len[member.sequence];
    place.begin = p.begin_of(member.sequence);
    const int64_t past_last = Least(place.first_position + place.num_queries + place.ahead, place.context);
    VisitSlots<T>(p, member.sequence, item.kv_head, place, shared, past_last, rows);
    place.first_row += place.num_queries * place.group;
  }

  EachRow(p, item, [&](int64_t row, int64_t, int64_t query, int64_t head) {
    const int64_t size = p.out_size();
    float* out = p.out + query * p.out_stride + head * size;
    for (int64_t d = 0; d < size; ++d) out[d] = rows.out[row * dim + d] / rows.sum[row];
  });
}

}  // namespace

int64_t AttentionScratch(const PagedAttentionParams& p) {
  const int64_t few = MaxRows(p) * (2 * p.cache.head_dim + 5) + kRowTile * PadToLanes(SlotsOfSpan(p.cache));
  return Most(few, PrefillScratch(p));
}

void AttentionTile(const PagedAttentionParams& p, const AttentionItem& item, float* scratch) {
  if (IsPrefill(p, item)) return PrefillTile(p, item, scratch);
  WithKvNumbers(p, [&]<class T>() { TileOf<T>(p, item, scratch); });
}

}  // namespace quire::kernels::QUIRE_ISA

// Attention over fp16 caches by AMX tiles, for prompts and for few rows alike. Queries and weights are rounded to two
// bf16 terms each (error 2^-17), and keys and values are exact sums of two terms. Of the four products of terms, the
// product of the two lower terms is left out (2^-18). Sums are in fp32. A row's bits do not depend on the rows beside
// it: a tile multiplies each row alone, every row visits the same spans, and slots that a row does not see add zeros.
#include "kernels/cpu/isa/amx/attends_by_tiles.h"
#include "kernels/cpu/isa/amx/attention_rows.h"
#include "kernels/cpu/isa/amx/next_lines.h"
#include "kernels/cpu/isa/functions.h"
#include "kernels/cpu/isa/soft_cap.h"

namespace quire::kernels::QUIRE_ISA {

namespace {

// Tile registers: kScores and kOut: sums; kX: the terms of queries or weights; kW: the terms of keys or values.
constexpr int kScores = 0, kOut = 1, kX = 2, kW = 4;

/// Adds the three products of terms of a step: upper with upper, lower with upper, upper with lower. The lower terms of
/// x begin `x_term` bytes after its upper terms, and the lower terms of w one tile after its upper terms.
template <int sum>
QUIRE_INLINE inline void AddTerms(const std::byte* x, int64_t x_term, const std::byte* w) {
  LoadTile<kX>(x, kPairBytes);
  LoadTile<kW>(w, kPairBytes);
  AddBFloats<sum, kX, kW>();
  LoadTile<kX + 1>(x + x_term, kPairBytes);
  AddBFloats<sum, kX + 1, kW>();
  LoadTile<kW + 1>(w + kTileBytes, kPairBytes);
  AddBFloats<sum, kX, kW + 1>();
}

/// Computes the scores of a vector of slots: query r . key j.
void ScoreVector(const Sight& sight, int64_t vector, const std::byte* keys, const Rows& rows) {
  const int64_t term = rows.padded * kPairBytes;
  const std::byte* query = rows.Query(0, 0, sight.row);
  ClearTile<kScores>();
  for (int64_t step = 0; step < rows.dim / kPairedNumbers; ++step)
    AddTerms<kScores>(query + step * kTwoTerms * term, term, keys + step * kTwoTerms * kTileBytes);
  StoreTile<kScores>(sight.Scores(vector, 0), kPairBytes);
}

/// out[r, :] += sum over slots of weight * value, for a vector of dimensions.
void AccumulateVector(const Sight& sight, int64_t vector, const std::byte* values, const Rows& rows) {
  float* const out = rows.out + sight.row * rows.dim + vector * kLanes;
  const int64_t stride = rows.dim * static_cast<int64_t>(sizeof(float));
  LoadTile<kOut>(out, stride);
  for (int64_t step = sight.steps.begin; step < sight.steps.end; ++step)
    AddTerms<kOut>(sight.Weights(step), kTileBytes, values + step * kTwoTerms * kTileBytes);
  StoreTile<kOut>(out, stride);
}

IntVec Lanes() {
  IntVec lanes;
  for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = lane;
  return lanes;
}

/// Applies the cap, ALiBi's slopes and the mask to a row's scores and returns their largest.
float Adjust(const PagedAttentionParams& p, const Sight& sight, int64_t r, int64_t start, const Rows& rows) {
  const int64_t begin = 2 * sight.steps.begin, end = 2 * sight.steps.end;
  const bool masks = sight.all.begin > begin * kLanes || sight.all.end < end * kLanes;
  const bool changes = masks || p.soft_cap > 0 || p.alibi_slopes != nullptr;
  const IntVec lanes = Lanes();
  Vec top = Splat(kMasked);
  for (int64_t vector = begin; vector < end; ++vector) {
    float* const scores = sight.Scores(vector, r);
    Vec score = Load(scores);
    if (changes) {
      const IntVec slot = lanes + static_cast<int32_t>(vector * kLanes);
      if (p.soft_cap > 0) score = SoftCap(score, p.soft_cap);
      if (p.alibi_slopes != nullptr) {
        const Vec distance =
            __builtin_convertvector(slot, Vec) + (static_cast<float>(start) - rows.place[sight.row + r]);
        score = MulAdd(Min(distance, -distance), Splat(rows.slope[sight.row + r]), score);
      }
      const IntVec sees = (slot >= static_cast<int32_t>(sight.begin[r])) & (slot < static_cast<int32_t>(sight.end[r]));
      score = sees ? score : Splat(kMasked);
      Store(scores, score);
    }
    top = Max(score, top);
  }
  return MaxLane(top);
}

/// Turns a row's scores into weights relative to `base`, stored as two bf16 terms each. Adds the weights to the row's
/// sum, lane by lane.
void Weigh(const Sight& sight, int64_t r, float base, float shrink, const Rows& rows) {
  Vec total = {};
  for (int64_t step = sight.steps.begin; step < sight.steps.end; ++step) {
    const Vec low = Exp(Load(sight.Scores(2 * step, r)) - base), high = Exp(Load(sight.Scores(2 * step + 1, r)) - base);
    total += low;
    total += high;
    StorePairs(SplitPairs<true>(low, high), sight.Weights(step) + r * kPairBytes, kTileBytes);
  }
  float* const sum = rows.sum + (sight.row + r) * kLanes;
  Store(sum, MulAdd(Load(sum), Splat(shrink), total));
  float* const out = rows.out + (sight.row + r) * rows.dim;
  for (int64_t d = 0; shrink != 1.0f && d < rows.dim; d += kLanes) Store(out + d, Load(out + d) * shrink);
}

/// Turns the scores of all rows into weights; makes the rows' outputs relative to their new maxima. Rows of the tile
/// beyond the last one get weights 0.
void Reweigh(const PagedAttentionParams& p, const Sight& sight, int64_t start, const Rows& rows) {
  float tops[kLanes], base[kLanes], shrink[kLanes];
  for (int64_t r = 0; r < kTileRows; ++r) tops[r] = r < sight.count ? Adjust(p, sight, r, start, rows) : kMasked;
  const Vec before = Load(rows.max + sight.row), now = Max(Load(tops), before);
  Store(rows.max + sight.row, now);
  Store(base, Max(now, Splat(kMasked / 2)));  // a row that has seen no slot yet gets weights 0
  Store(shrink, Exp(before - now));
  for (int64_t r = 0; r < sight.count; ++r) Weigh(sight, r, base[r], shrink[r], rows);
  for (int64_t vector = 2 * sight.steps.begin; vector < 2 * sight.steps.end; ++vector) {
    for (int64_t r = sight.count; r < kTileRows; ++r) Store(sight.Scores(vector, r), Vec{});
  }
}

/// Adds v - v to each row's output for every value v that the row sees: 0 for finite numbers, NaN for others.
void Spoil(const Sight& sight, const Span<Half>& span, const Rows& rows) {
  for (int64_t r = 0; r < sight.count; ++r) {
    float* const out = rows.out + (sight.row + r) * rows.dim;
    for (int64_t slot = sight.begin[r]; slot < sight.end[r]; ++slot) {
      const int64_t block = slot / span.block_size;
      const Half* values = span.values[block] + (slot - block * span.block_size) * span.dim;
      for (int64_t d = 0; d < rows.dim; d += kLanes) {
        const Vec v = LoadNumbers(values + d);
        Store(out + d, Load(out + d) + (v - v));
      }
    }
  }
}

/// A span's keys and values, their tiles, and the next span, which is prefetched meanwhile. After the last span, `next`
/// is the last span.
struct Step {
  const PagedAttentionParams& p;
  const Span<Half>&span, &next;
  const ValueRows &values, &next_values;
  int64_t start;  // position of the first slot
  const SpanTiles& tiles;
};

/// Processes a span for rows of a single tile: multiplies each vector of slots or dimensions as soon as it is written,
/// while the next one is written. All vectors use the same memory.
void VisitOneTile(const Step& s, const Place& place, const Rows& rows) {
  const Sight sight = SightOf(place, 0, s.start, s.span.slots, rows);
  NextLines lines(s.next, s.next_values);
  for (int64_t vector = 2 * sight.steps.begin; vector < 2 * sight.steps.end; ++vector) {
    lines.BeginKeys(vector);
    if (vector * kLanes < s.values.slots.end)
      WriteKeys(s.span, vector, s.tiles.keys, [&]() QUIRE_INLINE { lines.FetchKey(); });
    ScoreVector(sight, vector, s.tiles.keys, rows);
  }
  Reweigh(s.p, sight, s.start, rows);
  bool finite = true;
  for (int64_t vector = 0; vector < rows.dim / kLanes; ++vector) {
    finite &= WriteValues(s.values, vector, s.tiles.values, [&]() QUIRE_INLINE { lines.FetchValue(); });
    AccumulateVector(sight, vector, s.tiles.values, rows);
  }
  if (!finite) Spoil(sight, s.span, rows);
}

/// Processes a span for several tiles of rows.
void VisitTiles(const Step& s, const Place& place, const Rows& rows) {
  const int64_t vectors = rows.dim / kLanes, count = (place.num_rows() + kTileRows - 1) / kTileRows;
  const Visible slots = s.values.slots;
  bool finite = true;
  for (int64_t v = slots.begin / kLanes; v * kLanes < slots.end; ++v) WriteKeys(s.span, v, s.tiles.Keys(v), [] {});
  for (int64_t v = 0; v < vectors; ++v) finite &= WriteValues(s.values, v, s.tiles.Values(v), [] {});
  for (int64_t first = 0; first < count; first += kTilesTogether) {
    Sight sights[kTilesTogether];
    const int64_t together = Least(kTilesTogether, count - first);
    for (int64_t i = 0; i < together; ++i) {
      Sight& sight = sights[i] = SightOf(place, (first + i) * kTileRows, s.start, s.span.slots, rows);
      for (int64_t v = 2 * sight.steps.begin; v < 2 * sight.steps.end; ++v)
        ScoreVector(sight, v, s.tiles.Keys(v), rows);
    }
    for (int64_t i = 0; i < together; ++i) {
      FetchShare(s.next, first + i, count);
      if (sights[i].SeesAny()) Reweigh(s.p, sights[i], s.start, rows);
    }
    for (int64_t i = 0; i < together; ++i) {
      if (!sights[i].SeesAny()) continue;
      for (int64_t v = 0; v < vectors; ++v) AccumulateVector(sights[i], v, s.tiles.Values(v), rows);
      if (!finite) Spoil(sights[i], s.span, rows);
    }
  }
}

/// Processes a sequence's slots from `start` (the first slot of a span) to `past_last` for the place's rows.
void VisitSlots(const PagedAttentionParams& p, int64_t sequence, int64_t kv_head, const Place& place, int64_t start,
                int64_t past_last, const SpanTiles& tiles, const Rows& rows) {
  const int64_t slots = SlotsOfSpan(p.cache), first_seen = Most(place.first_position - place.window + 1, 0);
  start = Most(start, first_seen / slots * slots);
  if (start >= past_last) return;
  Span<Half> spans[2] = {EmptySpan<Half>(p.cache), EmptySpan<Half>(p.cache)};
  ValueRows values[2];
  const auto open = [&](int64_t at, int which) {
    const Visible visible = {Most(first_seen - at, 0), Least(past_last - at, slots)};
    OpenSpan(p, sequence, kv_head, at / p.cache.block_size, visible, spans[which]);
    values[which].Set(spans[which], visible);
  };
  open(start, 0);
  for (int now = 0; start < past_last; start += slots, now ^= 1) {
    const int next = start + slots < past_last ? now ^ 1 : now;
    if (next != now) open(start + slots, next);
    const Step step{p, spans[now], spans[next], values[now], values[next], start, tiles};
    place.num_rows() > kTileRows ? VisitTiles(step, place, rows) : VisitOneTile(step, place, rows);
  }
}

void BeginRows(const PagedAttentionParams& p, const AttentionItem& item, const Rows& rows) {
  EachRow(p, item, [&](int64_t row, int64_t sequence, int64_t query, int64_t head) {
    const float* from = p.queries + query * p.query_stride + head * rows.dim;
    for (int64_t d = 0; d < rows.dim; d += kPairedNumbers) {
      StorePairs(SplitPairs<true>(Load(from + d) * p.scale, Load(from + d + kLanes) * p.scale),
                 rows.Query(d / kPairedNumbers, 0, row), rows.padded * kPairBytes);
    }
    for (int64_t d = 0; d < rows.dim; d += kLanes) Store(rows.out + row * rows.dim + d, Vec{});
    Store(rows.sum + row * kLanes, Vec{});
    if (p.sinks != nullptr) rows.sum[row * kLanes] = 1.0f;
    rows.max[row] = p.sinks == nullptr ? kMasked : p.sinks[head];
    rows.slope[row] = p.alibi_slopes == nullptr ? 0.0f : p.alibi_slopes[head];
    rows.place[row] = static_cast<float>(PositionOf(p, sequence, query));
  });
}

void EndRows(const PagedAttentionParams& p, const AttentionItem& item, const Rows& rows) {
  EachRow(p, item, [&](int64_t row, int64_t, int64_t query, int64_t head) {
    float* const out = p.out + query * p.out_stride + head * rows.dim;
    const Vec sum = Splat(Sum(Load(rows.sum + row * kLanes)));
    for (int64_t d = 0; d < rows.dim; d += kLanes) Store(out + d, Load(rows.out + row * rows.dim + d) / sum);
  });
}

/// Configures all eight tile registers for 16 whole rows, even if an item has fewer rows, because a new configuration
/// takes as long as ten tile products.
void ShapeTiles() {
  TileShapes shapes;
  for (int i = 0; i < 8; ++i) {
    shapes.rows[i] = kTileRows;
    shapes.bytes[i] = kPairBytes;
  }
  SetTiles(shapes);
}

std::byte* Aligned(float* scratch) {
  constexpr uintptr_t kLine = 64;
  return reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(scratch) + kLine - 1) / kLine * kLine);
}

}  // namespace

int64_t AttentionScratch(const PagedAttentionParams& p) {
  const int64_t without = WithoutTiles().attention_scratch(p);
  if (!AttendsByTiles(p)) return without;
  return kLanes + (BytesOfRows(p) + BytesOfSpanTiles(p)) / static_cast<int64_t>(sizeof(float));
}

/// Computes an item: queries of a prompt, or of several sequences that share their first blocks. The sequences visit
/// the shared blocks together.
void AttentionTile(const PagedAttentionParams& p, const AttentionItem& item, float* scratch) {
  if (!AttendsByTiles(p)) return WithoutTiles().attention(p, item, scratch);
  std::byte* const memory = Aligned(scratch);
  const Rows rows = CarveRows(p, memory);
  const SpanTiles tiles = CarveSpanTiles(p, memory + BytesOfRows(p));
  BeginRows(p, item, rows);
  ShapeTiles();
  const int64_t slots = SlotsOfSpan(p.cache), shared = item.shared_blocks * p.cache.block_size / slots * slots;
  Place place = {
      p.head_start[item.kv_head + 1] - p.head_start[item.kv_head], 0, 0, shared, WindowOf(p), AheadOf(p), shared};
  for (int64_t m = 0; m < item.num_members; ++m) place.num_queries += item.members[m].num_queries;
  VisitSlots(p, item.members[0].sequence, item.kv_head, place, 0, shared, tiles, rows);
  for (int64_t m = 0; m < item.num_members; ++m) {
    const AttentionMember& member = item.members[m];
    place.num_queries = member.num_queries;
    place.first_position = PositionOf(p, member.sequence, member.first_query);
    place.context = p.context_len[member.sequence];
    const int64_t past_last = Least(place.first_position + place.num_queries + place.ahead, place.context);
    VisitSlots(p, member.sequence, item.kv_head, place, shared, past_last, tiles, rows);
    place.first_row += place.num_queries * place.group;
  }
  ReleaseTiles();
  EndRows(p, item, rows);
}

}  // namespace quire::kernels::QUIRE_ISA

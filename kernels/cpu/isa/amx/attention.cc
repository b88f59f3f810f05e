// Computes attention over fp16 caches by AMX tiles, for prompts and for few rows alike. Each query and weight is
// rounded to a sum of two bf16 terms (relative error below 2^-16). Each key and value is exactly such a sum. The
// product of the two lower terms is left out (less than 2^-15 of the whole product). Sums are in fp32. A row's bits do
// not depend on the rows beside it. AMX multiplies each row of a tile alone, every row visits the same spans, and slots
// that a row does not see add zeros.
#include "kernels/cpu/isa/amx/attends_by_tiles.h"
#include "kernels/cpu/isa/amx/next_lines.h"
#include "kernels/cpu/isa/amx/softmax.h"
#include "kernels/cpu/isa/amx/spoil.h"
#include "kernels/cpu/isa/amx/value_tiles.h"
#include "kernels/cpu/isa/amx/vector_sums.h"
#include "kernels/cpu/isa/functions.h"

namespace quire::kernels::QUIRE_ISA {

namespace {

/// A span of a sequence while it is processed for the rows of a single tile.
struct Passage {
  Span<Half> span;
  Visible visible;
  Sight sight;
  int64_t start = 0;  // position of the first slot
};

/// Computes a span's scores for the rows of a single tile, 16 slots (a vector) at a time. WriteKeys splits the keys of
/// a vector into bf16 terms in short steps. Between these steps, AMX multiplies the previous vector, so that the core
/// splits and multiplies at the same time. Before each step, beside(third) is called, too (see WriteKeys); callers use
/// it to prefetch.
template <class Beside>
QUIRE_INLINE inline void ScoreSpan(const Passage& now, const SpanTiles& tiles, const Rows& rows, const Beside& beside) {
  const int64_t begin = 2 * now.sight.steps.begin, end = 2 * now.sight.steps.end;
  const auto write = [&](int64_t vector, const auto& besides) QUIRE_INLINE {
    if (vector * kLanes < now.visible.end) WriteKeys(now.span, vector, tiles.Keys(vector % 2), besides);
  };
  if (begin == end) return;
  write(begin, beside);
  for (int64_t vector = begin; vector < end; ++vector) {
    VectorOfScores scores(now.sight, vector, tiles.Keys(vector % 2), rows);
    if (vector + 1 < end) {
      write(vector + 1, [&](int third) QUIRE_INLINE {
        beside(third);
        scores.Add(third);
      });
    }
    scores.End();
  }
}

/// Adds a span's weighted values to the outputs of the rows of a single tile. Like ScoreSpan, splits one vector of
/// dimensions into bf16 terms while AMX multiplies the previous vector.
template <class Values, class Beside>
QUIRE_INLINE inline void AccumulateSpan(const Passage& now, const Values& values, const SpanTiles& tiles,
                                        const Rows& rows, const Beside& beside) {
  const int64_t vectors = rows.dim / kLanes;
  bool finite = WriteValues(values, 0, tiles.Values(0), beside);
  for (int64_t vector = 0; vector < vectors; ++vector) {
    VectorOfOutputs outputs(now.sight, vector, tiles.Values(vector % 2), rows);
    if (vector + 1 < vectors) {
      finite &= WriteValues(values, vector + 1, tiles.Values((vector + 1) % 2), [&](int third) QUIRE_INLINE {
        beside(third);
        outputs.Add(third);
      });
    }
    outputs.End();
  }
  if (!finite) Spoil(now.sight, now.span, rows);
}

/// A span's keys and values, their tiles, and the next span, which is prefetched while this span is processed. For the
/// last span, `next` is the same span.
struct Step {
  const PagedAttentionParams& p;
  const Span<Half>&span, &next;
  const ValueRows& values;
  int64_t start;  // position of the first slot
  const SpanTiles& tiles;
};

/// The AMX products that the core computes during the softmax of one tile of rows: first the scores of the next tile of
/// rows (`scored`), then the outputs of the previous one (`summed`). `scored` and `summed` may be null.
class Products {
 public:
  Products(const Step& step, const Rows& rows, const Sight* scored, const Sight* summed)
      : step_(step), rows_(rows), scored_(scored), summed_(summed) {
    if (scored != nullptr) slots_ = {2 * scored->steps.begin, 2 * scored->steps.end};
    if (summed != nullptr && summed->SeesAny()) dims_ = {0, rows.dim / kLanes};
  }

  int64_t left() const { return slots_.end - slots_.begin + dims_.end - dims_.begin; }
  void ComputeOne() {
    if (slots_.begin < slots_.end) {
      VectorOfScores(*scored_, slots_.begin, step_.tiles.Keys(slots_.begin), rows_).End();
      ++slots_.begin;
    } else {
      VectorOfOutputs(*summed_, dims_.begin, step_.tiles.Values(dims_.begin), rows_).End();
      ++dims_.begin;
    }
  }
  void ComputeRest() {
    while (left() > 0) ComputeOne();
  }

 private:
  const Step& step_;
  const Rows& rows_;
  const Sight *scored_, *summed_;
  Visible slots_{}, dims_{};  // vectors that are left
};

/// Processes a span for several tiles of rows. While vector instructions turn the scores of one tile of rows into
/// weights, AMX instructions multiply for the tiles of rows before and after it.
void VisitTiles(const Step& s, const Place& place, const Rows& rows) {
  const int64_t vectors = rows.dim / kLanes, count = (place.num_rows() + kTileRows - 1) / kTileRows;
  const Visible slots = s.values.slots;
  bool finite = true;
  for (int64_t v = slots.begin / kLanes; v * kLanes < slots.end; ++v) WriteKeys(s.span, v, s.tiles.Keys(v), [](int) {});
  for (int64_t v = 0; v < vectors; ++v) finite &= WriteValues(s.values, v, s.tiles.Values(v), [](int) {});
  Sight ring[kTilesAtOnce];
  const auto sight = [&](int64_t i) { return i >= 0 && i < count ? &ring[i % kTilesAtOnce] : nullptr; };
  for (int64_t i = -1; i <= count; ++i) {
    Sight *const last = sight(i - 1), *const now = sight(i), *const next = sight(i + 1);
    if (next != nullptr) *next = SightOf(place, (i + 1) * kTileRows, s.start, s.span.slots, rows);
    Products products(s, rows, next, last);
    if (now != nullptr) FetchShare(s.next, i, count);
    if (now != nullptr && now->SeesAny()) {
      const int64_t all = products.left();
      Reweigh(s.p, *now, s.start, rows, [&](int64_t r) QUIRE_INLINE {
        while ((all - products.left()) * now->count < (r + 1) * all) products.ComputeOne();
      });
    }
    products.ComputeRest();
    if (!finite && last != nullptr) Spoil(*last, s.span, rows);
  }
}

/// Opens the spans (kv_span.h) of the positions [first_seen, past_last) of a sequence.
struct Spans {
  const PagedAttentionParams& p;
  int64_t sequence, kv_head, first_seen, past_last;

  Visible Open(int64_t start, Span<Half>& span) const {
    const Visible visible = {Most(first_seen - start, 0), Least(past_last - start, span.slots)};
    OpenSpan(p, sequence, kv_head, start / p.cache.block_size, visible, span);
    return visible;
  }
};

/// Processes slots for the rows of a single tile. The scores of the next span are computed before the current
/// span's scores become weights, and the span after the next one is prefetched meanwhile. With so few rows, the core
/// would otherwise have nothing to do while it waits for AMX results.
void VisitInOneTile(const Spans& spans, const Place& place, int64_t start, const SpanTiles& tiles, const Rows& rows) {
  const int64_t slots = SlotsOfSpan(spans.p.cache), count = (spans.past_last - start + slots - 1) / slots;
  const Span<Half> empty = EmptySpan<Half>(spans.p.cache);
  Passage ring[3];
  const auto open = [&](int64_t n) {
    Passage& it = ring[n % 3];
    it.span = empty;
    it.start = start + n * slots;
    it.visible = spans.Open(it.start, it.span);
    it.sight = SightOf(place, 0, it.start, slots, rows);
    it.sight.weights = rows.weights + n % 2 * BytesOfWeights(spans.p);
  };
  for (int64_t n = 0; n < Least(count, 2); ++n) {
    open(n);
    FetchShare(ring[n].span, 0, 1);
  }
  for (int64_t n = -1; n < count; ++n) {
    if (n >= 0 && n + 2 < count) open(n + 2);
    NextLines lines(ring[Least(n + 2, count - 1) % 3].span);
    if (n + 1 < count)
      ScoreSpan(ring[(n + 1) % 3], tiles, rows, [&](int third) QUIRE_INLINE { lines.FetchKeys(third); });
    if (n < 0) continue;
    const Passage& now = ring[n % 3];
    Reweigh(spans.p, now.sight, now.start, rows, [](int64_t) {});
    const auto fetch = [&](int third) QUIRE_INLINE { lines.FetchValues(third); };
    if (IsWhole(now.span, now.visible)) {
      AccumulateSpan(now, WholeValues(now.span), tiles, rows, fetch);
    } else {
      ValueRows values;
      values.Set(now.span, now.visible);
      AccumulateSpan(now, values, tiles, rows, fetch);
    }
  }
}

/// Processes slots for rows of several tiles.
void VisitInTiles(const Spans& spans, const Place& place, int64_t start, const SpanTiles& tiles, const Rows& rows) {
  const int64_t slots = SlotsOfSpan(spans.p.cache);
  Span<Half> two[2] = {EmptySpan<Half>(spans.p.cache), EmptySpan<Half>(spans.p.cache)};
  Visible visible = spans.Open(start, two[0]);
  for (int now = 0; start < spans.past_last; start += slots, now ^= 1) {
    ValueRows values;
    values.Set(two[now], visible);
    const int next = start + slots < spans.past_last ? now ^ 1 : now;
    if (next != now) visible = spans.Open(start + slots, two[next]);
    VisitTiles({spans.p, two[now], two[next], values, start, tiles}, place, rows);
  }
}

/// Processes a sequence's slots from `start` (the first slot of a span) to `past_last` for the place's rows.
void VisitSlots(const PagedAttentionParams& p, int64_t sequence, int64_t kv_head, const Place& place, int64_t start,
                int64_t past_last, const SpanTiles& tiles, const Rows& rows) {
  const int64_t slots = SlotsOfSpan(p.cache), first_seen = Most(place.first_position - place.window + 1, 0);
  start = Most(start, first_seen / slots * slots);
  if (start >= past_last) return;
  const Spans spans{p, sequence, kv_head, first_seen, past_last};
  place.num_rows() > kTileRows ? VisitInTiles(spans, place, start, tiles, rows)
                               : VisitInOneTile(spans, place, start, tiles, rows);
}

/// Returns the number of rows.
int64_t BeginRows(const PagedAttentionParams& p, const AttentionItem& item, const Rows& rows) {
  int64_t count = 0;
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
    count = row + 1;
  });
  return count;
}

void EndRows(const PagedAttentionParams& p, const AttentionItem& item, const Rows& rows) {
  EachRow(p, item, [&](int64_t row, int64_t, int64_t query, int64_t head) {
    float* const out = p.out + query * p.out_stride + head * rows.dim;
    const Vec sum = Splat(Sum(Load(rows.sum + row * kLanes)));
    for (int64_t d = 0; d < rows.dim; d += kLanes) Store(out + d, Load(rows.out + row * rows.dim + d) / sum);
  });
}

/// Configures the tile registers once for an item, because a new configuration takes as long as ten tile products.
/// Registers of an item with few rows have no more rows than the item.
void ShapeTiles(const Rows& rows) {
  TileShapes shapes;
  for (int i = 0; i < 8; ++i) {
    shapes.rows[i] = i < kW ? static_cast<uint8_t>(rows.of_tile) : kTileRows;
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
  Rows rows = CarveRows(p, memory);
  const SpanTiles tiles = CarveSpanTiles(p, memory + BytesOfRows(p));
  rows.of_tile = Least(BeginRows(p, item, rows), kTileRows);
  ShapeTiles(rows);
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

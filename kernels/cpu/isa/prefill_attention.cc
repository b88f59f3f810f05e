// Computes attention of many rows of one sequence: each lane is a row; scores and outputs are blocked products.
#include "kernels/cpu/isa/byte_panels.h"
#include "kernels/cpu/isa/functions.h"
#include "kernels/cpu/isa/kv_form.h"
#include "kernels/cpu/isa/kv_panels.h"
#include "kernels/cpu/isa/row_products.h"
#include "kernels/cpu/isa/soft_cap.h"
#include "kernels/cpu/isa/unrolled.h"

namespace quire::kernels::QUIRE_ISA {

namespace {

/// How many slots (for scores) or dimensions (for outputs) a tile computes at a time. Their sums (kRowVectors vectors
/// for each), the rows and one number fit into the register file: 16 registers, or 32 with AVX-512.
constexpr int kTileNumbers = kLanes == 16 ? 8 : 6;
/// How many slots or dimensions a tile computes at a time with products of bytes. Without byte instructions, a vector
/// of bytes is split into two.
constexpr int kTileBytes = kByteProducts == ByteProducts::kAll ? kTileNumbers : kLanes == 16 ? 6 : 4;
constexpr int64_t kManyRows = 16;            // from this many rows on, widening the keys and values pays off
static_assert(kManyRows <= kAttentionTile);  // items with fewer rows must fit the scratch memory of AttentionTile

/// The positions that a query at position p sees: (p - window, p + ahead], as far as they are in [begin, context).
struct Reach {
  int64_t window, ahead, begin, context;
};

/// The slots of a span that the rows of a block see: row r sees [begin[r], end[r]), all rows see `all`, and at least
/// one row sees each slot of `any`.
template <int V>
struct Sight {
  IntVec begin[V], end[V];
  Visible any, all;

  IntVec Sees(int64_t slot, int v) const {
    const IntVec at = IntVec{} + static_cast<int32_t>(slot);
    return (at >= begin[v]) & (at < end[v]);
  }
};

/// Computes the Sight for a span of `slots` slots whose first slot has position `start`.
template <int V>
Sight<V> SightOf(const RowBlock& block, int64_t start, int64_t slots, const Reach& reach) {
  Sight<V> sight;
  const int64_t first = block.place[0] - start, last = block.place[block.count - 1] - start;
  const int64_t before = Most(reach.begin - start, 0), there = Least(slots, reach.context - start);
  sight.any = {Most(first - reach.window + 1, before), Least(last + 1 + reach.ahead, there)};
  sight.all = {Most(last - reach.window + 1, before), Least(first + 1 + reach.ahead, there)};
  if (sight.all.begin >= sight.all.end) sight.all = {sight.any.begin, sight.any.begin};
  Unrolled<V>([&](auto v) QUIRE_INLINE {
    const IntVec past_self = LoadAs<IntVec>(block.place + v * kLanes) - static_cast<int32_t>(start) + 1;
    const IntVec begin = past_self - static_cast<int32_t>(reach.window),
                 first_of_all = IntVec{} + static_cast<int32_t>(before);
    sight.begin[v] = begin > first_of_all ? begin : first_of_all;
    const IntVec end = past_self + static_cast<int32_t>(reach.ahead), past_all = IntVec{} + static_cast<int32_t>(there);
    sight.end[v] = end < past_all ? end : past_all;
  });
  return sight;
}

/// weights[j, :] = key j . query, summed over the head dimension in order.
template <int V>
void Scores(const RowBlock& block, int64_t dim, int64_t padded, Visible slots, const Panels& panels) {
  for (int64_t slot = slots.begin; slot < slots.end; slot += kTileNumbers) {
    WithRows<kTileNumbers>(Least(kTileNumbers, slots.end - slot), [&]<int S>() {
      Vec acc[S][V] = {};
      AddProducts<S, V>(panels.keys + slot, padded, block.query, 0, dim, kSeenByAll, acc);
      Unrolled<S>([&](auto s) QUIRE_INLINE {
        Unrolled<V>([&](auto v)
                        QUIRE_INLINE { Store(panels.weights + (slot + s) * kBlockRows + v * kLanes, acc[s][v]); });
      });
    });
  }
}

/// Computes scores with bytes, and multiplies them by the scales of queries and keys.
template <int V>
void Scores(const RowBlock& block, int64_t dim, int64_t padded, Visible slots, const BytePanels& panels) {
  for (int64_t slot = slots.begin; slot < slots.end; slot += kTileBytes) {
    WithRows<kTileBytes>(Least(kTileBytes, slots.end - slot), [&]<int S>() {
      IntVec acc[S][V];
      Unrolled<S>([&](auto s) QUIRE_INLINE {
        Unrolled<V>([&](auto v) QUIRE_INLINE { acc[s][v] = IntVec{} - kRaised * panels.key_totals[slot + s]; });
      });
      AddByteProducts<S, V>(panels.keys + slot, padded, block.query, 0, dim / 4, acc);
      Unrolled<S>([&](auto s) QUIRE_INLINE {
        Unrolled<V>([&](auto v) QUIRE_INLINE {
          Store(panels.weights + (slot + s) * kBlockRows + v * kLanes,
                __builtin_convertvector(acc[s][v], Vec) * Load(block.step + v * kLanes) * panels.key_scales[slot + s]);
        });
      });
    });
  }
}

/// Adjusts scores: multiplies them by the keys' scales if the product has not, applies the soft cap, and adds ALiBi's
/// slopes or the numbers of relative_bias.
template <class T, class PanelsOf>
void AdjustScores(const PagedAttentionParams& p, const RowBlock& block, int64_t start, Visible slots,
                  const PanelsOf& panels) {
  constexpr bool kScales = kScaled<T> && !kInBytes<T>;
  if (!kScales && p.soft_cap <= 0 && p.alibi_slopes == nullptr) {
    if (p.relative_bias != nullptr) AddBias(BiasOf(p), block, start, slots.begin, slots.end, panels.weights);
    return;
  }
  for (int64_t at = 0; at < kBlockRows; at += kLanes) {
    const Vec place = __builtin_convertvector(LoadAs<IntVec>(block.place + at), Vec), slope = Load(block.slope + at);
    for (int64_t slot = slots.begin; slot < slots.end; ++slot) {
      float* const to = panels.weights + slot * kBlockRows + at;
      Vec score = Load(to);
      if constexpr (kScales) score *= panels.key_scales[slot];
      if (p.soft_cap > 0) score = SoftCap(score, p.soft_cap);
      if (p.alibi_slopes != nullptr) score = MulAdd(Downhill(static_cast<float>(start + slot) - place), slope, score);
      Store(to, score);
    }
  }
  if (p.relative_bias != nullptr) AddBias(BiasOf(p), block, start, slots.begin, slots.end, panels.weights);
}

/// Sets the scores or weights of slots that a row does not see to `masked`.
template <int V>
void Mask(const Sight<V>& sight, Visible slots, float masked, float* scores) {
  for (int64_t slot = slots.begin; slot < slots.end; ++slot) {
    Unrolled<V>([&](auto v) QUIRE_INLINE {
      float* const to = scores + slot * kBlockRows + v * kLanes;
      Store(to, sight.Sees(slot, v) ? Load(to) : Splat(masked));
    });
  }
}

/// Turns the scores of a vector of rows into weights relative to each row's new maximum. Returns the factors by which
/// the rows' earlier sums and outputs shrink. Sums weights in the same order as the code for few rows: per lane of a
/// vector of slots, then across the lanes (Sum).
template <class T, class PanelsOf>
Vec Reweigh(const RowBlock& block, int64_t at, Visible slots, const PanelsOf& panels) {
  float* const weights = panels.weights + at;
  const Vec before = Load(block.max + at);
  Vec max = before;
  for (int64_t slot = slots.begin; slot < slots.end; ++slot) max = Max(Load(weights + slot * kBlockRows), max);
  const Vec base = Max(max, Splat(kMasked / 2));  // a row that has seen no slot yet gets weights 0
  Vec lanes[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    Vec sum = {};
    int64_t slot = slots.begin / kLanes * kLanes + lane;
    for (slot += slot < slots.begin ? kLanes : 0; slot < slots.end; slot += kLanes) {
      Vec weight = Exp(Load(weights + slot * kBlockRows) - base);
      sum += weight;
      if constexpr (kScaled<T>) weight *= panels.value_scales[slot];
      Store(weights + slot * kBlockRows, weight);
    }
    lanes[lane] = sum;
  }
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  const Vec shrink = Exp(before - max);
  Store(block.max + at, max);
  Store(block.sum + at, Load(block.sum + at) * shrink + lanes[0]);
  return shrink;
}

/// out = out * shrink + sum over slots of weight * value, in the order of the slots. Unseen slots are skipped despite
/// their weight 0, because 0 * infinity is NaN.
template <int V>
void Accumulate(const RowBlock& block, int64_t dim, const Sight<V>& sight, const Panels& panels,
                const Vec (&shrink)[V]) {
  const auto seen = [&](int64_t slot, int v, Vec without, Vec with)
                        QUIRE_INLINE { return sight.Sees(slot, v) ? with : without; };
  for (int64_t d = 0; d < dim; d += kTileNumbers) {
    WithRows<kTileNumbers>(Least(kTileNumbers, dim - d), [&]<int S>() {
      float* const out = block.out + d * kBlockRows;
      const float* const values = panels.values + d;
      const int64_t stride = PadToLanes(dim);
      Vec acc[S][V];
      Unrolled<S>([&](auto s) QUIRE_INLINE {
        Unrolled<V>([&](auto v) QUIRE_INLINE { acc[s][v] = Load(out + s * kBlockRows + v * kLanes) * shrink[v]; });
      });
      AddProducts<S, V>(values, stride, panels.weights, sight.any.begin, sight.all.begin, seen, acc);
      AddProducts<S, V>(values, stride, panels.weights, sight.all.begin, sight.all.end, kSeenByAll, acc);
      AddProducts<S, V>(values, stride, panels.weights, sight.all.end, sight.any.end, seen, acc);
      Unrolled<S>([&](auto s) QUIRE_INLINE {
        Unrolled<V>([&](auto v) QUIRE_INLINE { Store(out + s * kBlockRows + v * kLanes, acc[s][v]); });
      });
    });
  }
}

/// Does the same as the float version: out = out * shrink + sum over slots of weight * value, with bytes. Unseen slots
/// have weight 0.
template <int V>
void Accumulate(const RowBlock& block, int64_t dim, const Sight<V>& sight, const BytePanels& panels,
                const Vec (&shrink)[V]) {
  const Visible quads = {sight.any.begin / 4, (sight.any.end + 3) / 4};
  Mask(sight, {quads.begin * 4, sight.all.begin}, 0, panels.weights);
  Mask(sight, {sight.all.end, quads.end * 4}, 0, panels.weights);
  Vec step[V];
  for (int v = 0; v < V; ++v) step[v] = RoundWeights({quads.begin * 4, quads.end * 4}, panels.weights + v * kLanes);
  for (int64_t d = 0; d < dim; d += kTileBytes) {
    WithRows<kTileBytes>(Least(kTileBytes, dim - d), [&]<int S>() {
      IntVec acc[S][V] = {};
      AddByteProducts<S, V>(panels.values + d, dim, panels.weights, quads.begin, quads.end, acc);
      Unrolled<S>([&](auto s) QUIRE_INLINE {
        Unrolled<V>([&](auto v) QUIRE_INLINE {
          float* const out = block.out + (d + s) * kBlockRows + v * kLanes;
          Store(out, MulAdd(__builtin_convertvector(acc[s][v], Vec), step[v], Load(out) * shrink[v]));
        });
      });
    });
  }
}

/// Processes one span, whose first slot has position `start`, for one block of rows.
template <class T, class PanelsOf>
void VisitBlock(const PagedAttentionParams& p, const RowBlock& block, int64_t start, const Reach& reach,
                const Span<T>& span, const PanelsOf& panels) {
  WithRows<kRowVectors>((block.count + kLanes - 1) / kLanes, [&]<int V>() {
    const Sight<V> sight = SightOf<V>(block, start, span.slots, reach);
    if (sight.any.begin >= sight.any.end) return;
    Scores<V>(block, span.dim, span.padded, sight.any, panels);
    AdjustScores<T>(p, block, start, sight.any, panels);
    Mask(sight, {sight.any.begin, sight.all.begin}, kMasked, panels.weights);
    Mask(sight, {sight.all.end, sight.any.end}, kMasked, panels.weights);
    Vec shrink[V];
    for (int v = 0; v < V; ++v) shrink[v] = Reweigh<T>(block, v * kLanes, sight.any, panels);
    Accumulate(block, span.dim, sight, panels, shrink);
  });
}

int64_t NumRows(const PagedAttentionParams& p, const AttentionItem& item) {
  return (p.head_start[item.kv_head + 1] - p.head_start[item.kv_head]) * item.members->num_queries;
}

/// Returns the largest number of row blocks that an item can have.
int64_t MostBlocks(const PagedAttentionParams& p) {
  return (Most(kPrefillRows, p.num_heads) + kBlockRows - 1) / kBlockRows;
}

template <class T>
auto PanelsFor(float* scratch, int64_t dim, int64_t padded_slots) {
  if constexpr (kInBytes<T>) {
    return CarveBytePanels(scratch, dim, padded_slots);
  } else {
    return CarvePanels(scratch, dim, padded_slots);
  }
}

/// Computes an item with many rows of one sequence. A row visits the same slots in the same spans and sums in the same
/// order as in an item with few rows, so results do not depend on the other rows.
template <class T>
void TileOf(const PagedAttentionParams& p, const AttentionItem& item, float* scratch) {
  const int64_t dim = p.cache.head_dim, rows = NumRows(p, item), num_blocks = (rows + kBlockRows - 1) / kBlockRows;
  for (int64_t b = 0; b < num_blocks; ++b) {
    const RowBlock block = CarveBlock(scratch, dim, b, rows);
    BeginBlock(p, item, block);
    if constexpr (kInBytes<T>) RoundQueries(block, dim);
  }

  Span<T> spans[2] = {EmptySpan<T>(p.cache), EmptySpan<T>(p.cache)};
  const int64_t slots = spans[0].slots;
  const auto panels = PanelsFor<T>(scratch + MostBlocks(p) * FloatsOfBlock(dim), dim, spans[0].padded);
  const AttentionMember& member = *item.members;
  const Reach reach = {WindowOf(p), AheadOf(p), p.begin_of(member.sequence), p.context_len[member.sequence]};
  const int64_t first = PositionOf(p, member.sequence, member.first_query);
  const int64_t first_seen = Most(first - reach.window + 1, reach.begin);
  const int64_t past_last = Least(first + member.num_queries + reach.ahead, reach.context);
  const auto visible = [&](int64_t at) { return Visible{Most(first_seen - at, 0), Least(past_last - at, slots)}; };
  const auto open = [&](int64_t at, Span<T>& span) {
    OpenSpan(p, member.sequence, item.kv_head, at / span.block_size, visible(at), span);
  };
  int64_t start = first_seen / slots * slots;
  open(start, spans[0]);
  for (int now = 0; start < past_last; start += slots, now ^= 1) {
    const bool last = start + slots >= past_last;
    if (!last) open(start + slots, spans[now ^ 1]);
    Widen(spans[now], visible(start), panels);
    for (int64_t b = 0; b < num_blocks; ++b) {
      if (!last) FetchShare(spans[now ^ 1], b, num_blocks);
      VisitBlock(p, CarveBlock(scratch, dim, b, rows), start, reach, spans[now], panels);
    }
  }

  for (int64_t b = 0; b < num_blocks; ++b) EndBlock(p, item, CarveBlock(scratch, dim, b, rows));
}

}  // namespace

int64_t PrefillScratch(const PagedAttentionParams& p) {
  const int64_t dim = p.cache.head_dim;
  return MostBlocks(p) * FloatsOfBlock(dim) + FloatsOfPanels(dim, PadToLanes(SlotsOfSpan(p.cache)));
}

bool IsPrefill(const PagedAttentionParams& p, const AttentionItem& item) {
  return item.num_members == 1 && NumRows(p, item) >= kManyRows;
}

void PrefillTile(const PagedAttentionParams& p, const AttentionItem& item, float* scratch) {
  WithKvNumbers(p, [&]<class T>() { TileOf<T>(p, item, scratch); });
}

}  // namespace quire::kernels::QUIRE_ISA

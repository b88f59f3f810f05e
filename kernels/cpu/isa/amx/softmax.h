#pragma once

#include "kernels/cpu/isa/amx/attention_rows.h"
#include "kernels/cpu/isa/soft_cap.h"

// The softmax of a tile of rows during one span.
namespace quire::kernels::QUIRE_ISA {

/// The polynomial of 2^r for |r| <= 1/2, highest power first; off by at most 2^-22.
inline constexpr int kNumPowerTerms = 6;
inline constexpr float kPowerTerms[kNumPowerTerms] = {0.00132647273f, 0.00967151299f, 0.0555073358f,
                                                      0.240222424f,   0.693147004f,   1.0f};

inline IntVec Lanes() {
  IntVec lanes;
  for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = lane;
  return lanes;
}

/// Applies the cap, ALiBi's slopes and the mask to a row's scores and returns their largest.
inline float Adjust(const PagedAttentionParams& p, const Sight& sight, int64_t r, int64_t start, const Rows& rows) {
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

/// Returns exp(x) for x <= 0. The result is off by at most 2^-19, an eighth of the error of rounding to two bf16 terms.
/// Below -87 the result is 0; NaN gives NaN. Computes exp(x) = 2^n * 2^r with n = round(x / ln 2) and |r| <= 1/2; a
/// polynomial gives 2^r.
inline Vec ExpWeight(Vec x) {
  const Vec scale = Splat(1.44269504088896341f);
  const Vec shifted = MulAdd(x, scale, Splat(kRounder));
  const Vec r = MulAdd(x, scale, Splat(kRounder) - shifted);
  Vec p = Splat(kPowerTerms[0]);
  for (int i = 1; i < kNumPowerTerms; ++i) p = MulAdd(p, r, Splat(kPowerTerms[i]));
  // n is in the lowest bits of `shifted`. The shift drops the bits above them.
  const IntVec power = reinterpret_cast<IntVec>(p) + (reinterpret_cast<IntVec>(shifted) << 23);
  const IntVec vanishes = x < Splat(-87.0f);
  return vanishes ? Vec{} : reinterpret_cast<Vec>(power);
}

/// Turns a row's scores into weights exp(score - base), stored as two bf16 terms each. Multiplies the row's earlier sum
/// and output by `shrink`, and adds the weights to the sum, lane by lane.
inline void Weigh(const Sight& sight, int64_t r, float base, float shrink, const Rows& rows) {
  Vec total = {};
  for (int64_t step = sight.steps.begin; step < sight.steps.end; ++step) {
    const Vec low = ExpWeight(Load(sight.Scores(2 * step, r)) - base);
    const Vec high = ExpWeight(Load(sight.Scores(2 * step + 1, r)) - base);
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
/// registers that hold no query get weights 0. Calls beside(r) after row r.
template <class Beside>
QUIRE_INLINE inline void Reweigh(const PagedAttentionParams& p, const Sight& sight, int64_t start, const Rows& rows,
                                 const Beside& beside) {
  float tops[kLanes], base[kLanes], shrink[kLanes];
  Store(tops, Splat(kMasked));
  for (int64_t r = 0; r < sight.count; ++r) tops[r] = Adjust(p, sight, r, start, rows);
  const Vec before = Load(rows.max + sight.row), now = Max(Load(tops), before);
  Store(rows.max + sight.row, now);
  Store(base, Max(now, Splat(kMasked / 2)));  // a row that has seen no slot yet gets weights 0
  Store(shrink, Exp(before - now));
  for (int64_t vector = 2 * sight.steps.begin; vector < 2 * sight.steps.end; ++vector) {
    for (int64_t r = sight.count; r < rows.of_tile; ++r) Store(sight.Scores(vector, r), Vec{});
  }
  for (int64_t r = 0; r < sight.count; ++r) {
    Weigh(sight, r, base[r], shrink[r], rows);
    beside(r);
  }
}

}  // namespace quire::kernels::QUIRE_ISA

#pragma once

#include "kernels/cuda/sampling/sampling_select.cuh"

namespace quire::kernels {

/// The tokens of a source that may be sampled: all tokens up to `last` in the order of Place, with total weight `mass`.
/// `decided` is false if tokens that the source lacks could change the result.
struct Choice {
  bool decided;
  Place last;
  Mass mass;
};

/// Reduces `choice` to the fewest tokens, by falling logit, whose mass reaches top_p * choice.mass. `listed`: the mass
/// of the tokens of `choice` that the source has. The result is undecided if `listed` is less than top_p * choice.mass.
template <class Source>
__device__ Choice KeepTopP(const Source& source, const SelectScratch& scratch, const Soften& soften, float top_p,
                           const Choice& choice, Mass listed) {
  const double enough = static_cast<double>(top_p) * static_cast<double>(choice.mass);
  Mass target = static_cast<Mass>(enough);
  if (static_cast<double>(target) < enough) ++target;
  target = simt::Max(target, Mass{1});
  if (target > listed) return {false, choice.last, 0};
  const Place last = choice.last;
  const Found found = DescendLogits(source, scratch, target - 1, [&](float logit, int32_t id) {
    return last.Holds(OrderedBits(logit), id) ? soften(logit) : 0;
  });
  const uint32_t key = source.bounds.top_key - found.rank;
  const Mass each = soften(FromOrderedBits(key)), keep = (target - found.before + each - 1) / each;
  Place place{key, key == last.key ? last.id : kAnyId};
  if (keep * each < found.at) place = KeepTies(source, scratch, last, key, keep);
  return {true, place, found.before + keep * each};
}

/// Applies top-k, min-p (min_key is the lowest key that min-p leaves) and top-p. `complete`: the source has every token
/// of the row whose key is at least min_key and whose weight is not zero. Without `complete`, the source has the best
/// of these tokens, and `row_mass` is the mass of all tokens whose key is at least min_key (0: unknown).
template <class Source>
__device__ Choice Restrict(const Source& source, const SelectScratch& scratch, const Soften& soften,
                           const DeviceSampling& s, uint32_t min_key, bool complete, Mass row_mass) {
  Place last{min_key, kAnyId};
  if (s.top_k > 0) {
    const Mass k = static_cast<Mass>(s.top_k);
    const Mass count = Sum(source, scratch,
                           [&](float logit, int32_t id) { return Mass{last.Holds(OrderedBits(logit), id) ? 1u : 0u}; });
    if (count < k && !complete) return {false, last, 0};
    if (count > k) last = KeepBest(source, scratch, last, k);
    complete = true;
  }
  const Mass listed = Sum(
      source, scratch, [&](float logit, int32_t id) { return last.Holds(OrderedBits(logit), id) ? soften(logit) : 0; });
  const Choice choice{complete, last, complete ? listed : row_mass};
  if (s.top_p < 1 && choice.mass > 0) return KeepTopP(source, scratch, soften, s.top_p, choice, listed);
  return choice;
}

/// Adds up the masses of the tokens up to `last` (in the order of Place) by rising id, and returns the first token at
/// which the sum exceeds `target`.
template <class Source>
__device__ int32_t TokenAt(const Source& source, const SelectScratch& scratch, const Soften& soften, const Place& last,
                           Mass target) {
  return DescendIds(source, scratch, target,
                    [&](float logit, int32_t id) { return last.Holds(OrderedBits(logit), id) ? soften(logit) : 0; });
}

/// Returns the token that TokenAt would return for a whole row, by a walk in the order of ids. The walk begins at
/// column `begin`; the mass of earlier columns has already been subtracted from `target`.
__device__ inline int32_t WalkRow(const RowSource& source, const SelectScratch& scratch, const Soften& soften,
                                  const Place& last, int64_t begin, Mass target) {
  constexpr int kEach = 16;
  const auto weight = [&](int64_t i) {
    const float logit = Clean(source.row[i]);
    return last.Holds(OrderedBits(logit), source.bounds.first_id + static_cast<int32_t>(i)) ? soften(logit) : 0;
  };
  for (; begin < source.count; begin += kSelectThreads * kEach) {
    const int64_t from = begin + simt::ThreadX() * kEach, to = simt::Min(from + kEach, source.count);
    Mass mine = 0;
    for (int64_t i = from; i < to; ++i) mine += weight(i);
    const Scan scan = BlockScan(mine, scratch);
    if (target >= scan.total) {
      target -= scan.total;
      continue;
    }
    if (target >= scan.before && target - scan.before < mine) {
      Mass left = target - scan.before;
      int64_t i = from;
      for (Mass w = weight(i); left >= w; w = weight(++i)) left -= w;
      scratch.results[3] = static_cast<Mass>(i);
    }
    simt::SyncThreads();
    const Mass column = scratch.results[3];
    return source.bounds.first_id + static_cast<int32_t>(column);
  }
  return source.bounds.first_id;  // never reached: the row's mass exceeds the target
}

/// Writes the `count` best tokens of the source with their log-probabilities. `available`: the number of the source's
/// tokens, at least `count`.
template <class Source>
__device__ void WriteTop(const Source& source, const SelectScratch& scratch, int count, int available,
                         double log_sum_exp, const simt::SharedArray<float>& logits,
                         const simt::SharedArray<int32_t>& ids, DrawnToken* drawn) {
  Place last{0, kAnyId};
  if (available > count) last = KeepBest(source, scratch, last, static_cast<Mass>(count));
  if (simt::ThreadX() == 0) scratch.low[0] = 0u;
  simt::SyncThreads();
  source.ForEach([&](float logit, int32_t id) {
    if (!last.Holds(OrderedBits(logit), id)) return;
    const uint32_t at = simt::AtomicAdd(scratch.low, 0, 1u);
    logits[at] = logit, ids[at] = id;
  });
  simt::SyncThreads();
  if (simt::ThreadX() >= count) return;
  const float logit = logits[simt::ThreadX()];
  const int32_t id = ids[simt::ThreadX()];
  const Place mine{OrderedBits(logit), id};
  int rank = -1;  // -1, because a token holds itself
  for (int i = 0; i < count; ++i) rank += mine.Holds(OrderedBits(logits[i]), ids[i]) ? 1 : 0;
  const simt::Global<int32_t> top_token(drawn->top_token);
  const simt::Global<float> top_logprob(drawn->top_logprob);
  top_token[rank] = id;
  top_logprob[rank] = static_cast<float>(logit - log_sum_exp);
}

}  // namespace quire::kernels

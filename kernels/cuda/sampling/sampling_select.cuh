#pragma once

#include "kernels/cuda/sampling/sampling_math.cuh"

// Selection among tokens without sorting, by one thread block. Results do not depend on the order in which tokens are
// visited.
namespace quire::kernels {

constexpr int kSelectThreads = 256, kBins = 256;

/// Scratch memory of a thread block. BlockScan, Sum, the Descend functions, KeepTies and KeepBest may follow one
/// another without a barrier. A caller that reads this memory itself needs a barrier before the next of these calls.
struct SelectScratch {
  simt::SharedArray<uint32_t> low, high;  // [kBins]: halves of 64-bit sums
  simt::SharedArray<Mass> results;        // [4]
  simt::SharedArray<Mass> masses;         // [kSelectThreads]

  static constexpr int64_t kBytes =
      2 * simt::SharedBytes(kBins * 4) + simt::SharedBytes(32) + simt::SharedBytes(kSelectThreads * 8);
  static __device__ SelectScratch Take(simt::SharedArena& arena) {
    const simt::SharedArray<uint32_t> low = arena.template Take<uint32_t>(kBins);
    const simt::SharedArray<uint32_t> high = arena.template Take<uint32_t>(kBins);
    const simt::SharedArray<Mass> results = arena.template Take<Mass>(4);
    return {low, high, results, arena.template Take<Mass>(kSelectThreads)};
  }
};

/// Bounds on a source's tokens: keys in [top_key - key_span, top_key], ids in [first_id, first_id + id_span].
struct Bounds {
  uint32_t top_key, key_span;
  int32_t first_id;
  uint32_t id_span;
};
/// A source with the tokens of a list, in any order. Thread t visits entries t, t + kSelectThreads, ...
struct ListSource {
  simt::SharedArray<float> logits;
  simt::SharedArray<int32_t> ids;
  int count;
  Bounds bounds;
  template <class Visit>
  __device__ void ForEach(Visit visit) const {
    for (int i = simt::ThreadX(); i < count; i += kSelectThreads) {
      const float logit = logits[i];
      const int32_t id = ids[i];
      visit(logit, id);
    }
  }
};
/// A source with all tokens of a row.
struct RowSource {
  static constexpr int kLoads = 8;  // concurrent loads per thread, so that processing one does not delay the next

  simt::Global<const float> row;
  int64_t count;
  Bounds bounds;

  /// Calls visit(logit, id) for the kLoads columns first, first + kSelectThreads, ..., as far as they exist.
  template <class Visit>
  __device__ void ForLoads(int64_t first, Visit visit) const {
    float logits[kLoads];
#pragma unroll
    for (int e = 0; e < kLoads; ++e) {
      const int64_t i = first + e * kSelectThreads;
      logits[e] = i < count ? static_cast<float>(row[i]) : 0.0f;
    }
#pragma unroll
    for (int e = 0; e < kLoads; ++e) {
      const int64_t i = first + e * kSelectThreads;
      if (i < count) visit(Clean(logits[e]), bounds.first_id + static_cast<int32_t>(i));
    }
  }
  template <class Visit>
  __device__ void ForEach(Visit visit) const {
    for (int64_t i = simt::ThreadX(); i < count; i += kLoads * kSelectThreads) ForLoads(i, visit);
  }
};

__device__ inline Mass LaneMass(Mass value, int source) {
  const uint32_t low = simt::Broadcast(static_cast<uint32_t>(value), source);
  return Mass{simt::Broadcast(static_cast<uint32_t>(value >> 32), source)} << 32 | low;
}
/// Returns the sum over this lane and all lower lanes.
__device__ inline Mass WarpScan(Mass value) {
  const int lane = simt::ThreadX() % 32;
  for (int delta = 1; delta < 32; delta *= 2) {
    const Mass lower = LaneMass(value, simt::Max(lane - delta, 0));
    if (lane >= delta) value += lower;
  }
  return value;
}

struct Scan {
  Mass before, total;  // over lower threads; over the block
};
/// Returns to each thread the sum of the values of lower threads, and the sum of all values. All threads of the block
/// must call this. One warp does the additions, eight numbers per lane.
__device__ inline Scan BlockScan(Mass value, const SelectScratch& scratch) {
  constexpr int kEach = kSelectThreads / 32;
  const int thread = simt::ThreadX();
  scratch.masses[thread] = value;
  simt::SyncThreads();
  if (thread < 32) {
    Mass mine = 0;
    for (int i = thread * kEach; i < (thread + 1) * kEach; ++i) mine += scratch.masses[i];
    const Mass up_to = WarpScan(mine);
    Mass before = up_to - mine;
    for (int i = thread * kEach; i < (thread + 1) * kEach; ++i) {
      const Mass next = before + scratch.masses[i];
      scratch.masses[i] = before;
      before = next;
    }
    if (thread == 31) scratch.results[0] = up_to;
  }
  simt::SyncThreads();
  const Scan scan{scratch.masses[thread], scratch.results[0]};
  simt::SyncThreads();
  return scan;
}
/// Returns the sum of amount(logit, id) over the source.
template <class Source, class Amount>
__device__ Mass Sum(const Source& source, const SelectScratch& scratch, Amount amount) {
  Mass sum = 0;
  source.ForEach([&](float logit, int32_t id) { sum += amount(logit, id); });
  return BlockScan(sum, scratch).total;
}

/// Adds `amount` to a bin's 64-bit sum with 32-bit atomics: shared memory has the sum as two halves.
__device__ inline void AddToBin(const SelectScratch& scratch, uint32_t bin, Mass amount) {
  const uint32_t low = static_cast<uint32_t>(amount);
  const uint32_t old = simt::AtomicAdd(scratch.low, bin, low);
  const uint32_t high = static_cast<uint32_t>(amount >> 32) + (old + low < low ? 1 : 0);
  if (high != 0) simt::AtomicAdd(scratch.high, bin, high);
}
__device__ inline Mass BinSum(const SelectScratch& scratch, int bin) {
  const uint32_t low = scratch.low[bin], high = scratch.high[bin];
  return Mass{high} << 32 | low;
}

/// Finds the first bin at which the sum exceeds `target`: results = the bin, the sum before the bin, the sum in the
/// bin. All threads of one warp must call it.
__device__ inline void PickBin(const SelectScratch& scratch, Mass target) {
  constexpr int kEach = kBins / 32;
  const int first = simt::ThreadX() % 32 * kEach;
  Mass mine = 0;
  for (int b = first; b < first + kEach; ++b) mine += BinSum(scratch, b);
  Mass before = WarpScan(mine) - mine;
  if (target < before || target - before >= mine) return;
  for (int b = first; b < first + kEach; ++b) {
    const Mass sum = BinSum(scratch, b);
    if (target - before < sum) {
      scratch.results[0] = static_cast<Mass>(b), scratch.results[1] = before, scratch.results[2] = sum;
      return;
    }
    before += sum;
  }
}

struct Found {
  uint32_t rank;
  Mass before, at;  // sum of amounts of lower ranks; amount of this rank
};
/// Adds up amount(logit, id) by rising rank(logit, id), and finds the first rank at which the sum exceeds `target`,
/// eight bits of the rank at a time. No rank may exceed `highest`. The sum over all tokens must exceed `target`.
template <class Source, class Rank, class Amount>
__device__ Found Descend(const Source& source, const SelectScratch& scratch, uint32_t highest, Mass target, Rank rank,
                         Amount amount) {
  Found found{0, 0, 0};
  int shift = 0;
  while (static_cast<uint64_t>(highest) >> (shift + 8) != 0) shift += 8;
  for (; shift >= 0; shift -= 8) {
    for (int b = simt::ThreadX(); b < kBins; b += kSelectThreads) scratch.low[b] = 0u, scratch.high[b] = 0u;
    simt::SyncThreads();
    source.ForEach([&](float logit, int32_t id) {
      const uint32_t r = rank(logit, id);
      if (static_cast<uint64_t>(r) >> (shift + 8) != found.rank) return;
      const Mass mass = amount(logit, id);
      if (mass != 0) AddToBin(scratch, r >> shift & (kBins - 1), mass);
    });
    simt::SyncThreads();
    if (simt::ThreadX() < 32) PickBin(scratch, target - found.before);
    simt::SyncThreads();
    const Mass bin = scratch.results[0], before = scratch.results[1], at = scratch.results[2];
    found = {found.rank << 8 | static_cast<uint32_t>(bin), found.before + before, at};
  }
  return found;
}

/// Descends in the order of falling logits. The rank that it finds is a distance from the top key.
template <class Source, class Amount>
__device__ Found DescendLogits(const Source& source, const SelectScratch& scratch, Mass target, Amount amount) {
  const uint32_t top = source.bounds.top_key;
  return Descend(
      source, scratch, source.bounds.key_span, target, [=](float logit, int32_t) { return top - OrderedBits(logit); },
      amount);
}
/// Descends in the order of rising ids. Returns the id that it finds.
template <class Source, class Amount>
__device__ int32_t DescendIds(const Source& source, const SelectScratch& scratch, Mass target, Amount amount) {
  const int32_t first = source.bounds.first_id;
  const Found found = Descend(
      source, scratch, source.bounds.id_span, target,
      [=](float, int32_t id) { return static_cast<uint32_t>(id - first); }, amount);
  return first + static_cast<int32_t>(found.rank);
}

/// Returns the position, in the order of Place, of the `keep`-th token among the tokens that have this key and come no
/// later than `last`.
template <class Source>
__device__ Place KeepTies(const Source& source, const SelectScratch& scratch, const Place& last, uint32_t key,
                          Mass keep) {
  const auto one = [&](float logit, int32_t id) {
    return Mass{OrderedBits(logit) == key && last.Holds(key, id) ? 1u : 0u};
  };
  return {key, DescendIds(source, scratch, keep - 1, one)};
}

/// Returns the position, in the order of Place, of the k-th best token among the tokens that come no later than `last`;
/// there must be more than k such tokens.
template <class Source>
__device__ Place KeepBest(const Source& source, const SelectScratch& scratch, const Place& last, Mass k) {
  const auto one = [&](float logit, int32_t id) { return Mass{last.Holds(OrderedBits(logit), id) ? 1u : 0u}; };
  const Found found = DescendLogits(source, scratch, k - 1, one);
  const uint32_t key = source.bounds.top_key - found.rank;
  if (found.before + found.at == k) return {key, key == last.key ? last.id : kAnyId};
  return KeepTies(source, scratch, last, key, k - found.before);
}

}  // namespace quire::kernels

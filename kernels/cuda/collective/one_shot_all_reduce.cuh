#pragma once

#include <simt/device.cuh>
#include <simt/system_sync.cuh>

#include "kernels/cuda/collective/one_shot_all_reduce.h"
#include "kernels/cuda/elementwise/row_ops.cuh"

namespace quire::kernels {

// Layout of an arena: the number of finished operations (mod 2^32) and the number of thread blocks that have finished
// the running operation; at byte 128 a flag per (thread block, sending rank); from kOneShotHeaderBytes on, a slot of
// `capacity` bytes per (parity of the operation, sending rank). Operation k: a thread block writes its part into its
// slot of every peer's arena, then sets its flags in those arenas to k + 1. Once the peers' flags in its own arena are
// k + 1, it adds up the parts. One exchange is enough because slots alternate: a rank that writes operation k + 2 has
// seen the peer's flag of k + 1. The peer set that flag after its whole operation k had ended, because kernels of one
// stream do not overlap.

/// What one thread block sends and receives in one operation. A block owns the same elements on every rank, and
/// exchanges data with the blocks that have the same index.
template <class T, int kThreads>
class OneShotExchange {
 public:
  static constexpr int kVec = 16 / sizeof(T);
  using Elements = simt::Vec<T, kVec>;

  __device__ OneShotExchange(const OneShotGroup& group, const void* in)
      : g_(group), in_(static_cast<const T*>(in)), operation_(Words(group.rank)[0]) {}

  /// Sends elements [begin, end) and waits for the peers' parts. `begin` must be a multiple of kVec. All threads of the
  /// block get false if the host gave up.
  __device__ bool Exchange(int64_t begin, int64_t end, const simt::SharedArray<int>& complete) const {
    for (int64_t i = begin + simt::ThreadX() * kVec; i < end; i += kThreads * kVec) Send(i, end);
    simt::SyncThreads();
    if (simt::ThreadX() < 32) {
      const int peer = simt::ThreadX();
      const bool is_peer = peer < g_.size && peer != g_.rank;
      const int64_t flags = kFlags + simt::BlockX() * kMaxOneShotRanks;
      if (is_peer) simt::StoreReleaseSystem(Words(peer), flags + g_.rank, operation_ + 1);
      simt::SyncWarp();  // all peers get their flags before any lane waits
      const bool came = simt::All(!is_peer || Await(peer, flags + peer));
      if (peer == 0) complete[0] = came ? 1 : 0;
    }
    simt::SyncThreads();
    return complete[0] != 0;
  }

  /// Returns, for each of the elements [i, i + kVec), its sum over all ranks. These elements must have been exchanged.
  __device__ Elements Sum(int64_t i) const {
    Elements parts[kMaxOneShotRanks];
    simt::Global<T> part = Slot(g_.rank, 0);
#pragma unroll
    for (int r = 0; r < kMaxOneShotRanks; ++r) {  // issues all loads before the first use
      if (r < g_.size) parts[r] = r == g_.rank ? simt::LoadVec<kVec>(in_, i) : simt::LoadVec<kVec>(part, i);
      part = part + g_.capacity / static_cast<int64_t>(sizeof(T));
    }
    float total[kVec];
    for (int e = 0; e < kVec; ++e) total[e] = simt::ToFloat(parts[0].v[e]);
#pragma unroll
    for (int r = 1; r < kMaxOneShotRanks; ++r) {
      if (r >= g_.size) continue;
      for (int e = 0; e < kVec; ++e) total[e] += simt::ToFloat(parts[r].v[e]);
    }
    Elements sum;
    for (int e = 0; e < kVec; ++e) sum.v[e] = simt::FromFloat<T>(total[e]);
    return sum;
  }

  /// Returns the sum of one element over all ranks, for the last elements that do not fill a vector.
  __device__ T SumOne(int64_t i) const {
    float total = 0;
    for (int r = 0; r < g_.size; ++r) {
      T part = in_[i];
      if (r != g_.rank) part = Slot(g_.rank, r)[i];
      total = r == 0 ? simt::ToFloat(part) : total + simt::ToFloat(part);
    }
    return simt::FromFloat<T>(total);
  }

  /// Counts this block as finished. The last block ends the operation.
  __device__ void Finish() const {
    if (simt::ThreadX() != 0) return;
    const simt::Global<uint32_t> words = Words(g_.rank);
    if (simt::AtomicAdd(words, 1, 1u) + 1 == static_cast<uint32_t>(simt::GridX())) {
      words[1] = 0u;
      words[0] = operation_ + 1;
    }
  }

 private:
  static constexpr int64_t kFlags = 32;  // in words: on another cache line than the counters
  static constexpr uint32_t kSpinsPerLook = 1024;
  static_assert(4 * (kFlags + kMaxOneShotBlocks * kMaxOneShotRanks) <= kOneShotHeaderBytes);

  __device__ simt::Global<uint32_t> Words(int rank) const {
    return simt::Global<uint32_t>(static_cast<uint32_t*>(g_.arenas[rank]));
  }
  /// Returns the slot in which `rank` receives the data of `sender`.
  __device__ simt::Global<T> Slot(int rank, int sender) const {
    const int64_t slot = static_cast<int64_t>(operation_ % 2) * g_.size + sender;
    return simt::Global<T>(static_cast<T*>(g_.arenas[rank])) +
           (kOneShotHeaderBytes + slot * g_.capacity) / static_cast<int64_t>(sizeof(T));
  }

  /// Sends elements [i, i + kVec) that lie before `end`. Every rank starts with a different peer.
  __device__ void Send(int64_t i, int64_t end) const {
    if (i + kVec <= end) {
      const Elements x = simt::LoadVec<kVec>(in_, i);
      for (int hop = 1; hop < g_.size; ++hop) simt::StoreVec(Slot((g_.rank + hop) % g_.size, g_.rank), i, x);
      return;
    }
    for (; i < end; ++i) {
      const T x = in_[i];
      for (int hop = 1; hop < g_.size; ++hop) Slot((g_.rank + hop) % g_.size, g_.rank)[i] = x;
    }
  }

  /// Waits for the peer's flag. Returns false if the host gave up first. Operation numbers wrap around, so their
  /// difference is compared.
  __device__ bool Await(int peer, int64_t flag) const {
    const simt::Global<uint32_t> flags = Words(g_.rank), control(g_.control);
    for (uint32_t spins = 1;; ++spins) {
      if (static_cast<int32_t>(simt::LoadAcquireSystem(flags, flag) - (operation_ + 1)) >= 0) return true;
      if (spins % kSpinsPerLook == 0 && simt::LoadAcquireSystem(control, 0) != 0) {
        simt::StoreReleaseSystem(control, 1 + peer, 1);
        return false;
      }
      simt::SpinPause();
    }
  }

  const OneShotGroup& g_;
  simt::Global<const T> in_;
  uint32_t operation_;
};

/// The kernel of OneShotAllReduce: block b sums elements [b * piece, (b + 1) * piece).
template <class T>
struct OneShotAllReduceKernel {
  struct Params {
    OneShotAllReduceParams op;
    int64_t piece;  // elements per block, a multiple of the vector
  };
  static constexpr int kThreads = 256;
  static constexpr bool kNeedsCoResidency = true;  // waits for the peers' block of the same index
  static constexpr int64_t kSharedSize = simt::SharedBytes(4);

  static __device__ void Run(const Params& p) {
    using Exchange = OneShotExchange<T, kThreads>;
    simt::SharedArena arena;
    const simt::SharedArray<int> complete = arena.template Take<int>(1);
    const Exchange exchange(p.op.group, p.op.in);
    const int64_t begin = simt::BlockX() * p.piece, end = simt::Min(begin + p.piece, p.op.count);
    if (exchange.Exchange(begin, end, complete)) {
      const simt::Global<T> out(static_cast<T*>(p.op.out));
      for (int64_t i = begin + simt::ThreadX() * Exchange::kVec; i < end; i += kThreads * Exchange::kVec) {
        if (i + Exchange::kVec <= end) {
          simt::StoreVec(out, i, exchange.Sum(i));
        } else {
          for (int64_t e = i; e < end; ++e) out[e] = exchange.SumOne(e);
        }
      }
    }
    exchange.Finish();
  }
};

/// The kernel of OneShotAllReduceRmsNorm: block b sums and normalizes rows [b * rows, (b + 1) * rows). Has as many
/// threads as RmsNormKernel, so that squares are summed in the same order.
template <class T>
struct OneShotAllReduceRmsNormKernel {
  struct Params {
    OneShotAllReduceRmsNormParams op;
    int64_t rows;
  };
  static constexpr int kThreads = 256, kWarps = kThreads / 32, kVec = 16 / sizeof(T);
  static constexpr bool kNeedsCoResidency = true;
  static constexpr int64_t kSharedSize = simt::SharedBytes(4) + simt::SharedBytes(kWarps * 4);
  using Exchange = OneShotExchange<T, kThreads>;

  static __device__ void Run(const Params& p) {
    simt::SharedArena arena;
    const simt::SharedArray<int> complete = arena.template Take<int>(1);
    const simt::SharedArray<float> warp_sum = arena.template Take<float>(kWarps);
    const RmsNormParams& norm = p.op.norm;
    const Exchange exchange(p.op.group, norm.delta);
    const int64_t begin = simt::BlockX() * p.rows, end = simt::Min(begin + p.rows, norm.num_tokens);
    if (exchange.Exchange(begin * norm.hidden, end * norm.hidden, complete)) {
      for (int64_t row = begin; row < end; ++row) {
        Normalise(norm, row * norm.hidden, exchange, warp_sum);
        simt::SyncThreads();  // before warp_sum is written again
      }
    }
    exchange.Finish();
  }

  /// Sums and normalizes the row that begins at element `row`.
  static __device__ void Normalise(const RmsNormParams& p, int64_t row, const Exchange& exchange,
                                   const simt::SharedArray<float>& warp_sum) {
    const simt::Global<T> residual = simt::Global<T>(static_cast<T*>(p.residual)) + row;
    float squares = 0;
    for (int64_t i = simt::ThreadX() * kVec; i < p.hidden; i += kThreads * kVec) {
      simt::Vec<T, kVec> x = simt::LoadVec<kVec>(residual, i);
      const simt::Vec<T, kVec> dx = exchange.Sum(row + i);
      for (int e = 0; e < kVec; ++e) x.v[e] = simt::FromFloat<T>(simt::ToFloat(x.v[e]) + simt::ToFloat(dx.v[e]));
      simt::StoreVec(residual, i, x);
      for (int e = 0; e < kVec; ++e) squares += simt::ToFloat(x.v[e]) * simt::ToFloat(x.v[e]);
    }
    squares = BlockReduce<kWarps>(squares, warp_sum, SumOf{});
    ScaleRow<T, kThreads>(p, row, residual, simt::Rsqrt(squares / static_cast<float>(p.hidden) + p.epsilon));
  }
};

}  // namespace quire::kernels

#pragma once

#include "kernels/cuda/latent/latent_write.h"
#include "kernels/cuda/reduce.cuh"

namespace quire::kernels {

/// The kernel of LatentWrite: one thread block per token. T: type of the rows; C: type of the cache.
template <class T, class C>
struct LatentWriteKernel {
  using Params = LatentWriteParams;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kThreads = 256, kWarps = kThreads / 32;
  static constexpr int kX = 16 / sizeof(C);
  static constexpr int64_t kSharedSize = simt::SharedBytes(kWarps * 4);

  /// Where number d of the token's row lies in the cache, and the factor to multiply it by.
  struct Slot {
    simt::Global<C> cache;
    int64_t base;  // start of the block
    int block_size, offset;
    float to_stored;

    __device__ void Write(int d, float number) const {
      cache[base + (d / kX * block_size + offset) * kX + d % kX] = simt::FromFloat<C>(number * to_stored);
    }
  };

  static __device__ void Run(const Params& p) {
    simt::TriggerDependents();
    simt::WaitForPrerequisites();
    const int64_t token = simt::BlockX();
    const int64_t slot = simt::Global<const int64_t>(p.slots)[token];
    if (slot < 0) return;  // uniform in the thread block
    const int64_t block = slot / p.cache.block_size;
    const Slot to{simt::Global<C>(static_cast<C*>(p.cache.keys)), block * p.cache.key_block_stride, p.cache.block_size,
                  static_cast<int>(slot % p.cache.block_size), 1 / p.cache.k_scale};
    simt::SharedArena arena;
    const simt::SharedArray<float> warp_sum = arena.template Take<float>(kWarps);
    const simt::Global<const T> row =
        simt::Global<const T>(static_cast<const T*>(p.rows)) + token * (p.rank + p.rotated_dim);
    WriteLatent(p, row, warp_sum, to);
    const int64_t position = simt::Global<const int32_t>(p.positions)[token];
    const simt::Global<const float> cos_sin = simt::Global<const float>(p.cos_sin) + position * p.rotated_dim;
    for (int i = simt::ThreadX(); i < p.rotated_dim / 2; i += kThreads) {
      const simt::Vec<float, 2> turned = Rotated(p, row, p.rank, cos_sin, i);
      to.Write(i, turned.v[0]);
      to.Write(i + p.rotated_dim / 2, turned.v[1]);
    }
    RotateQueries(p, token, cos_sin);
  }

  static __device__ void WriteLatent(const Params& p, const simt::Global<const T>& row,
                                     const simt::SharedArray<float>& warp_sum, const Slot& to) {
    float squares = 0;
    for (int d = simt::ThreadX(); d < p.rank; d += kThreads) {
      const T stored = row[d];
      squares += simt::ToFloat(stored) * simt::ToFloat(stored);
    }
    squares = BlockReduce<kWarps>(squares, warp_sum, SumOf{});
    const float scale = simt::Rsqrt(squares / static_cast<float>(p.rank) + p.epsilon);
    const simt::Global<const T> norm(static_cast<const T*>(p.norm));
    for (int d = simt::ThreadX(); d < p.rank; d += kThreads) {
      const T stored = row[d], weight = norm[d];
      to.Write(p.rotated_dim + d, simt::ToFloat(stored) * scale * simt::ToFloat(weight));
    }
  }

  /// Returns dimensions i and i + rotated_dim / 2 of the rotated numbers that begin at from[first].
  static __device__ simt::Vec<float, 2> Rotated(const Params& p, const simt::Global<const T>& from, int64_t first,
                                                const simt::Global<const float>& cos_sin, int i) {
    const int half = p.rotated_dim / 2;
    const T stored_a = from[first + (p.interleaved ? 2 * i : i)];
    const T stored_b = from[first + (p.interleaved ? 2 * i + 1 : i + half)];
    const float a = simt::ToFloat(stored_a), b = simt::ToFloat(stored_b);
    const float cos = cos_sin[i], sin = cos_sin[half + i];
    return {{a * cos - b * sin, b * cos + a * sin}};
  }

  static __device__ void RotateQueries(const Params& p, int64_t token, const simt::Global<const float>& cos_sin) {
    const simt::Global<const T> queries(static_cast<const T*>(p.queries));
    const simt::Global<T> out(static_cast<T*>(p.out));
    const int half = p.rotated_dim / 2;
    for (int i = simt::ThreadX(); i < p.num_heads * half; i += kThreads) {
      const int64_t head = token * p.num_heads + i / half, to = head * (p.rotated_dim + p.rank) + i % half;
      const simt::Vec<float, 2> turned =
          Rotated(p, queries, (head + 1) * p.query_dim - p.rotated_dim, cos_sin, i % half);
      out[to] = simt::FromFloat<T>(turned.v[0]);
      out[to + half] = simt::FromFloat<T>(turned.v[1]);
    }
  }
};

}  // namespace quire::kernels

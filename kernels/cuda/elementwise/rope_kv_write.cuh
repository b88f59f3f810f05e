#pragma once

#include <simt/device.cuh>

#include "kernels/cuda/elementwise/rope_kv_write.h"

namespace quire::kernels {

/// The kernel of RopeKvWrite: one thread block per token. T: type of the rows; C: type of the cache.
template <class T, class C>
struct RopeKvWriteKernel {
  using Params = RopeKvWriteParams;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kThreads = 256;
  static constexpr int kX = 16 / sizeof(C);

  /// Where a token's keys and values are written, and the factors to multiply them by.
  struct Slot {
    simt::Global<C> keys, values;
    int64_t key_base, value_base;  // start of the block
    int head_size, block_size, offset;
    float to_key, to_value;  // reciprocal scales of an FP8 cache

    __device__ void WriteKey(int head, int d, float key) const {
      const int64_t at = (int64_t{head} * (head_size / kX) + d / kX) * block_size + offset;
      keys[key_base + at * kX + d % kX] = simt::FromFloat<C>(key * to_key);
    }
    __device__ void WriteValue(int head, int d, float value) const {
      const int64_t at = (int64_t{head} * head_size + d) * block_size + offset;
      values[value_base + at] = simt::FromFloat<C>(value * to_value);
    }
  };

  static __device__ void Run(const Params& p) {
    simt::TriggerDependents();
    simt::WaitForPrerequisites();  // slots and positions may be written by an earlier kernel
    const int64_t token = simt::BlockX();
    const int64_t slot = simt::Global<const int64_t>(p.slots)[token];
    if (slot < 0) return;
    const int64_t block = slot / p.cache.block_size;
    const Slot to{simt::Global<C>(static_cast<C*>(p.cache.keys)),
                  simt::Global<C>(static_cast<C*>(p.cache.values)),
                  block * p.cache.key_block_stride,
                  block * p.cache.value_block_stride,
                  p.cache.head_size,
                  p.cache.block_size,
                  static_cast<int>(slot % p.cache.block_size),
                  1 / p.cache.k_scale,
                  1 / p.cache.v_scale};
    const simt::Global<T> row = simt::Global<T>(static_cast<T*>(p.qkv)) + token * p.row_stride;
    if (p.bias != nullptr || (p.query_norm != nullptr && !p.norm_rotated)) {
      AddBiasAndNorm(p, row, p.bias, !p.norm_rotated);
      simt::SyncThreads();
    }
    RotatePairs(p, row, to);
    if (p.norm_rotated) {
      simt::SyncThreads();
      AddBiasAndNorm(p, row, nullptr, true);
      simt::SyncThreads();
    }
    CopyRest(p, row, to);
  }

  /// Adds biases, unless null, and normalizes heads if `norms` is set: in place, one head per warp at a time. Numbers
  /// are fp32 from the bias to the norm's result.
  static __device__ void AddBiasAndNorm(const Params& p, const simt::Global<T>& row, const void* biases, bool norms) {
    const int lane = simt::ThreadX() % 32, size = p.cache.head_size;
    const simt::Global<const T> bias(static_cast<const T*>(biases));
    const simt::Global<const T> query_norm(static_cast<const T*>(p.query_norm));
    const simt::Global<const T> key_norm(static_cast<const T*>(p.key_norm));
    const simt::Global<const T> value_norm(static_cast<const T*>(p.value_norm));
    for (int head = simt::ThreadX() / 32; head < p.num_heads + 2 * p.cache.num_kv_heads; head += kThreads / 32) {
      const int64_t at = int64_t{head} * size;
      const bool is_query = head < p.num_heads, is_value = head >= p.num_heads + p.cache.num_kv_heads;
      const auto biased = [&](int d) {
        const T stored = row[at + d];
        float x = simt::ToFloat(stored);
        if (biases != nullptr) {
          const T added = bias[at + d];
          x += simt::ToFloat(added);
        }
        return x;
      };
      if (!norms || p.query_norm == nullptr || (is_value && p.value_norm == nullptr)) {
        for (int d = lane; d < size; d += 32) row[at + d] = simt::FromFloat<T>(biased(d));
        continue;
      }
      float squares = 0, count = static_cast<float>(size);
      int64_t first_weight = 0;
      if (p.squares != nullptr) {
        squares = simt::Global<const float>(p.squares)[simt::BlockX() * 2 + (is_query ? 0 : 1)];
        count = static_cast<float>(is_query ? p.all_query_numbers : p.all_key_numbers);
        first_weight = int64_t{is_query ? head : head - p.num_heads} * size;
      } else {
        for (int d = lane; d < size; d += 32) squares += biased(d) * biased(d);
        for (int mask = 16; mask > 0; mask /= 2) squares += simt::ShuffleXor(squares, mask);
      }
      const float scale = simt::Rsqrt(squares / count + p.epsilon);
      for (int d = lane; d < size; d += 32) {
        const T weight = is_query   ? query_norm[first_weight + d]
                         : is_value ? value_norm[d]
                                    : key_norm[first_weight + d];
        row[at + d] = simt::FromFloat<T>(biased(d) * scale * simt::ToFloat(weight));
      }
    }
  }

  /// Rotates dimensions i and i + rotary_dim / 2 of every query and key head; writes the rotated keys, or leaves them
  /// in the row to be normed.
  static __device__ void RotatePairs(const Params& p, const simt::Global<T>& row, const Slot& to) {
    if (p.rotary_dim == 0) return;
    const int half = p.rotary_dim / 2;
    const int64_t position = simt::Global<const int32_t>(p.positions)[simt::BlockX()];
    const simt::Global<const float> cos_sin = simt::Global<const float>(p.cos_sin) + position * p.rotary_dim;
    const simt::Global<const float> of_queries =
        simt::Global<const float>(p.query_cos_sin == nullptr ? p.cos_sin : p.query_cos_sin) + position * p.rotary_dim;
    for (int i = simt::ThreadX(); i < (p.num_heads + p.cache.num_kv_heads) * half; i += kThreads) {
      const int head = i / half, d = i % half;
      const bool by_own = p.query_cos_sin != nullptr && head < p.num_heads;
      const float cos = by_own ? of_queries[d] : cos_sin[d], sin = by_own ? of_queries[half + d] : cos_sin[half + d];
      const int64_t at = int64_t{head} * p.cache.head_size + d;
      const T stored_a = row[at], stored_b = row[at + half];
      const float a = simt::ToFloat(stored_a), b = simt::ToFloat(stored_b);
      const float rotated_a = a * cos - b * sin, rotated_b = b * cos + a * sin;
      if (head < p.num_heads || p.norm_rotated) {
        row[at] = simt::FromFloat<T>(rotated_a);
        row[at + half] = simt::FromFloat<T>(rotated_b);
      } else {
        to.WriteKey(head - p.num_heads, d, rotated_a);
        to.WriteKey(head - p.num_heads, d + half, rotated_b);
      }
    }
  }

  /// Writes the values and those dimensions of keys that RotatePairs did not write.
  static __device__ void CopyRest(const Params& p, const simt::Global<T>& row, const Slot& to) {
    const int size = p.cache.head_size, written = p.norm_rotated ? 0 : p.rotary_dim, plain = size - written;
    const int64_t keys = int64_t{p.num_heads} * size, values = keys + int64_t{p.cache.num_kv_heads} * size;
    for (int i = simt::ThreadX(); i < p.cache.num_kv_heads * plain; i += kThreads) {
      const int head = i / plain, d = written + i % plain;
      const T key = row[keys + head * size + d];
      to.WriteKey(head, d, simt::ToFloat(key));
    }
    for (int i = simt::ThreadX(); i < p.cache.num_kv_heads * size; i += kThreads) {
      const T value = row[values + i];
      to.WriteValue(i / size, i % size, simt::ToFloat(value));
    }
  }
};

}  // namespace quire::kernels

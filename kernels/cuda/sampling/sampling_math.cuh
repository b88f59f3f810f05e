#pragma once

#include <cstring>
#include <simt/device.cuh>

#include "kernels/cuda/sampling/sampling.h"

namespace quire::kernels {

constexpr float kInfinity = __builtin_huge_valf(), kNotANumber = __builtin_nanf("");

/// Returns the logit, but -infinity for NaN, and 0 for -0.
__device__ inline float Clean(float logit) { return logit == logit ? logit + 0.0f : -kInfinity; }
__device__ inline bool IsFinite(float x) { return x > -kInfinity && x < kInfinity; }

/// Returns a logit as an unsigned number. These numbers have the same order as the logits, and 0 is below all of them.
__device__ inline uint32_t OrderedBits(float logit) {
  uint32_t bits;
  memcpy(&bits, &logit, 4);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ inline float FromOrderedBits(uint32_t key) {
  const uint32_t bits = (key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key;
  float logit;
  memcpy(&logit, &bits, 4);
  return logit;
}

/// A weight, or a sum of weights, in units of 2^-44 of the best token's weight. Atomics support this type.
using Mass = unsigned long long;
constexpr int kMassBits = 44;

/// Computes a token's weight exp((logit - max) / temperature), as a float or in the units of Mass; max must be finite.
struct Soften {
  float max, inverse_temperature;
  __device__ float Share(float logit) const {
    const float distance = logit - max;
    return distance == 0 ? 1.0f : simt::Exp(distance * inverse_temperature);  // 0 * infinity would be NaN
  }
  __device__ Mass operator()(float logit) const { return static_cast<Mass>(Share(logit) * 0x1p44f); }
};

/// Returns the high half of a 128-bit product.
__device__ inline Mass MultiplyHigh(Mass a, Mass b) {
  const Mass low = 0xffffffffu;
  const Mass middle = (a & low) * (b >> 32) + ((a & low) * (b & low) >> 32);
  const Mass other = (a >> 32) * (b & low) + (middle & low);
  return (a >> 32) * (b >> 32) + (middle >> 32) + (other >> 32);
}

/// Returns floor(u * total), where u is the random number of UniformFromKey (kernels/sampling.h): Philox4x32-10 with
/// the row's key.
__device__ inline Mass DrawnMass(const DeviceSampling& s, Mass total) {
  uint32_t c[4] = {static_cast<uint32_t>(s.position), static_cast<uint32_t>(s.position >> 32), s.choice, 0};
  uint32_t key[2] = {static_cast<uint32_t>(s.seed), static_cast<uint32_t>(s.seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * c[0], b = uint64_t{0xCD9E8D57} * c[2];
    const uint32_t c1 = c[1], c3 = c[3];
    c[0] = static_cast<uint32_t>(b >> 32) ^ c1 ^ key[0], c[1] = static_cast<uint32_t>(b);
    c[2] = static_cast<uint32_t>(a >> 32) ^ c3 ^ key[1], c[3] = static_cast<uint32_t>(a);
    key[0] += 0x9E3779B9, key[1] += 0xBB67AE85;
  }
  const Mass uniform = (Mass{c[0]} << 21) ^ (c[1] >> 11);  // 53 bits
  return MultiplyHigh(uniform << 11, total);
}

__device__ inline bool IsGreedy(const DeviceSampling& s) { return s.temperature <= 0 || s.top_k == 1; }

/// Returns the lowest key that min-p leaves; 0 if min_p is not above 0 or max is not finite. The threshold is computed
/// as a logit, where it is exact up to a double's rounding.
__device__ inline uint32_t MinPKey(const DeviceSampling& s, float max) {
  if (s.min_p <= 0 || !IsFinite(max)) return 0;
  const double least = max + static_cast<double>(s.temperature) * simt::Log(static_cast<double>(s.min_p));
  const float nearest = Clean(static_cast<float>(least));
  return simt::Min(OrderedBits(nearest) + (nearest < least ? 1 : 0), OrderedBits(max));
}

/// A position in the order in which tokens are considered: by falling logit, then by rising id.
struct Place {
  uint32_t key;
  int32_t id;
  /// True if the other token is at this position of the order or before it.
  __device__ bool Holds(uint32_t other_key, int32_t other_id) const {
    return other_key > key || (other_key == key && other_id <= id);
  }
};
constexpr int32_t kAnyId = 0x7fffffff;

}  // namespace quire::kernels

#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace quire::test {

/// Reproducible random numbers: the same seed gives the same numbers on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}

  uint64_t Bits() { return engine_(); }
  int64_t Below(int64_t bound) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(bound)); }
  int64_t Between(int64_t low, int64_t high) { return low + Below(high - low + 1); }
  /// Returns a uniform number in [-1, 1]. The upper bound itself can only come from rounding to float.
  float Signed() { return static_cast<float>(static_cast<double>(engine_() >> 11) * 0x1p-52 - 1.0); }
  std::vector<float> Floats(int64_t count) {
    std::vector<float> out(static_cast<size_t>(count));
    for (float& x : out) x = Signed();
    return out;
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace quire::test

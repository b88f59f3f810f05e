#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/packed_weight.h"
#include "tests/support/random.h"

// Makes weights and activations for tests of products.
namespace quire::test {

using kernels::kPanelRows;
using kernels::RowBytes;
using kernels::Weight;

struct Storage {
  std::vector<std::byte> bytes;
  Weight weight;
};

/// Returns random numbers in the storage of `type`. Scales in fp16 stay small and finite.
inline Storage RandomWeight(NumberType type, int64_t rows, int64_t cols, Random& random) {
  Storage s;
  const int64_t row_bytes = RowBytes(type, cols);
  s.bytes.resize(static_cast<size_t>(rows * row_bytes));
  const NumberLayout layout = LayoutOf(type);
  for (size_t at = 0; at < s.bytes.size(); at += static_cast<size_t>(layout.block_bytes)) {
    for (int i = 0; i < layout.block_bytes; ++i) s.bytes[at + static_cast<size_t>(i)] = std::byte(random.Bits() & 255);
    const auto put16 = [&](size_t offset, uint16_t v) { std::memcpy(&s.bytes[at + offset], &v, 2); };
    const auto small_half = [&] { return static_cast<uint16_t>(0x2400 | (random.Bits() & 0x83ff)); };
    if (type == NumberType::kF32) {
      const float v = random.Signed();
      std::memcpy(&s.bytes[at], &v, 4);
    } else if (type == NumberType::kBF16) {
      put16(0, static_cast<uint16_t>(0x3e00 | (random.Bits() & 0x80ff)));
    } else {
      put16(0, small_half());
      if (type == NumberType::kQ4_1) put16(2, small_half());
    }
  }
  s.weight = {type, s.bytes.data(), rows, cols, row_bytes};
  return s;
}

inline std::vector<std::byte> Pack(const Weight& w) {
  std::vector<std::byte> out(static_cast<size_t>(kernels::PackedBytes(w.type, w.rows, w.cols)));
  std::byte* to = out.data();
  for (int64_t first = 0; first < w.rows; first += kPanelRows, to += kernels::PanelBytes(w.type, w.cols)) {
    const std::byte* rows[kPanelRows] = {};
    for (int64_t i = 0; i < std::min(kPanelRows, w.rows - first); ++i) rows[i] = w.data + (first + i) * w.row_bytes;
    kernels::PackPanel(w.type, w.cols, rows, to);
  }
  return out;
}

/// Returns multiples of 1 / (most + 1), which a rounding to integers up to `most` leaves as they are. The first of
/// every 32 numbers is the largest.
inline std::vector<float> OfIntegers(int most, int64_t count, Random& random) {
  const auto steps = static_cast<float>(most);
  std::vector<float> x = random.Floats(count);
  for (size_t i = 0; i < x.size(); ++i) x[i] = (i % 32 == 0 ? steps : std::trunc(x[i] * steps)) / (steps + 1);
  return x;
}

}  // namespace quire::test

#pragma once

#include <string>
#include <vector>

#include "kernels/cuda/products/quantized_gemm.h"
#include "simt/device_buffer.h"

namespace quire::kernels {

/// Fills a QuantizedMatrix with random integers and moderate scales.
void FillQuantized(NumberType type, int64_t n, int64_t k, uint64_t seed, std::byte* to);
/// Returns number i of a row of a weight, rounded to the dtype.
double QuantizedNumber(const QuantizedMatrix& weight, NumberType dtype, int64_t row, int64_t i);

struct QuantizedShape {
  NumberType dtype = NumberType::kBF16, type = NumberType::kQ4_1;
  int32_t m = 3;
  int64_t n = 48, k = 96;
  float scale = 1;
  int64_t x_gap = 8, out_gap = 3;  // elements between the rows
};

/// Holds the inputs of a product with a quantised weight in "device memory". Allocations end with the last byte that
/// may be read or written. NaN fills the gaps between the rows of x and of the output.
class QuantizedCase {
 public:
  QuantizedCase(const QuantizedShape& shape, uint64_t seed);

  QuantizedGemmParams Params() const;
  /// Returns number i of a row of the weight, rounded to the dtype.
  double Weight(int64_t row, int64_t i) const;
  /// Returns the product in fp64, [m, n].
  std::vector<double> Expected() const;
  std::vector<float> Output() const;
  bool WroteBetweenRows() const;
  std::string Name() const;
  /// Bounds the error: |result - exact| <= Tolerance() * max(1, |exact|).
  double Tolerance() const;

  /// Copies a row of x of the other case, which must have the same k, to row i.
  void CopyRow(int64_t i, const QuantizedCase& other, int64_t row);

 private:
  int64_t XStride() const { return shape_.k + shape_.x_gap; }
  int64_t OutStride() const { return shape_.n + shape_.out_gap; }

  QuantizedShape shape_;
  simt::DeviceBuffer<std::byte> x_, weight_, out_;
};

}  // namespace quire::kernels

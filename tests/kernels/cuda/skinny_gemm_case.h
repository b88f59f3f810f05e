#pragma once

#include <string>
#include <vector>

#include "kernels/cuda/products/skinny_gemm.h"
#include "simt/device_buffer.h"

namespace quire::kernels {

struct SkinnyShape {
  NumberType dtype = NumberType::kBF16;
  int32_t m = 3;
  int64_t n = 48, k = 72;
  bool norm = false;
  SkinnyEpilogue epilogue = SkinnyEpilogue::kStore;
  SkinnyTile tile = SkinnyTile::kByShape;
  int64_t x_gap = 8, out_gap = 3;  // elements between the rows
};

/// Holds the inputs of a skinny GEMM in "device memory". Allocations end with the last number that may be read or
/// written. NaN fills the gaps between the rows of x and of the output, and the output itself unless it is a residual.
class SkinnyCase {
 public:
  SkinnyCase(const SkinnyShape& shape, uint64_t seed);

  SkinnyGemmParams Params() const;
  /// Computes the result in fp64 from the present inputs, [m, columns]. Call it before the kernel adds to a residual.
  /// The norm's products are rounded to the type, as the operation promises.
  std::vector<double> Expected() const;
  /// Returns [m, columns].
  std::vector<float> Output() const;
  /// Returns whether the output has other numbers than NaN between its rows.
  bool WroteBetweenRows() const;
  std::string Name() const;
  /// Bounds the error: |result - exact| <= Tolerance() * max(1, |exact|).
  double Tolerance() const;

  /// Copies a row of x (and of the residual) of the other case to row i.
  void CopyRow(int64_t i, const SkinnyCase& other, int64_t row);

 private:
  int64_t Columns() const { return shape_.epilogue == SkinnyEpilogue::kGateMul ? shape_.n / 2 : shape_.n; }
  int64_t XStride() const { return shape_.k + shape_.x_gap; }
  int64_t OutStride() const { return Columns() + shape_.out_gap; }
  NumberType OutType() const {
    return shape_.epilogue == SkinnyEpilogue::kStoreFloat ? NumberType::kF32 : shape_.dtype;
  }

  SkinnyShape shape_;
  simt::DeviceBuffer<std::byte> x_, weight_, norm_weight_, out_;
};

}  // namespace quire::kernels

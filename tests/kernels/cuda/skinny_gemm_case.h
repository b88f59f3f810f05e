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

/// Inputs of a skinny GEMM in "device memory". Allocations end with the last number that may be read or written, and
/// NaN is what lies between the rows of x and of the output, and the output unless it is a residual.
class SkinnyCase {
 public:
  SkinnyCase(const SkinnyShape& shape, uint64_t seed);

  SkinnyGemmParams Params() const;
  /// In fp64 from the inputs as they are now, so to be called before the kernel adds to a residual; the norm's products
  /// are rounded to the type, as the op promises. [m, columns]
  std::vector<double> Expected() const;
  /// [m, columns]
  std::vector<float> Output() const;
  /// Whether the output holds anything but NaN between its rows.
  bool WroteBetweenRows() const;
  std::string Name() const;
  /// |result - exact| <= this * max(1, |exact|).
  double Tolerance() const;

  /// Makes row i of x (and of the residual) that of the other case.
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

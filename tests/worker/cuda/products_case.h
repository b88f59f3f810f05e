#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cuda/products/quantized_gemm.h"
#include "kernels/cuda/quantized_gemm_case.h"
#include "tests/kernels/numbers.h"
#include "tests/support/random.h"
#include "worker/cuda/decoder/products.h"

namespace quire::test {

/// Multiplies random rows by one random weight: first many rows together (`many`), then only the first few of these
/// rows (`few`).
struct ManyAndFew {
  static constexpr int64_t kN = 48, kK = 96, kMany = 70, kFew = kernels::kQuantizedMaxRows;

  explicit ManyAndFew(NumberType type) {
    // The scratch memory has room for 16 rows of a weight or 30 rows of x, so that a product takes three parts.
    constexpr int64_t kScratch = 16 * kK * 2;
    Device device(0);
    Random random(6);
    const DeviceMemory weight = device.AllocateHost(kernels::QuantizedBytes(type, kN, kK), "a weight"),
                       x = device.AllocateHost(kMany * kK * 2, "inputs"),
                       y = device.AllocateHost(2 * kMany * kN * 2, "results"),
                       expanded = device.AllocateHost(kScratch, "rows");
    kernels::FillQuantized(type, kN, kK, 6, weight.as());
    for (int64_t i = 0; i < kMany * kK; ++i)
      kernels::reference::WriteNumber(x.as(), NumberType::kF16, i, random.Signed());
    Products products(device, expanded.as(), kScratch);
    GemmParams product{NumberType::kF16, x.as<void>(), weight.as<void>(), y.as<void>(), kK, kN, kMany, kN, kK};
    product.scale = 0.5f;
    product.quantized = type;
    products.Run(product);
    product.m = kFew;
    product.y = y.as() + kMany * kN * 2;
    products.Run(product);
    device.Synchronize();
    for (int64_t i = 0; i < kMany * kN; ++i)
      many.push_back(kernels::reference::ReadNumber(y.as(), NumberType::kF16, i));
    for (int64_t i = 0; i < kFew * kN; ++i)
      few.push_back(kernels::reference::ReadNumber(y.as(), NumberType::kF16, kMany * kN + i));
  }

  /// Difference returns the largest absolute difference between `few` and the same rows of `many`. Largest returns the
  /// largest absolute value in `few`.
  double Difference() const {
    double largest = 0;
    for (size_t i = 0; i < few.size(); ++i) largest = std::max(largest, std::abs(many[i] - few[i]));
    return largest;
  }
  double Largest() const {
    double largest = 0;
    for (const double number : few) largest = std::max(largest, std::abs(number));
    return largest;
  }

  std::vector<double> many, few;
};

}  // namespace quire::test

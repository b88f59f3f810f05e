#pragma once

#include <map>
#include <span>
#include <tuple>

#include "kernels/cuda/products/skinny_gemm.h"
#include "worker/cuda/gemm.h"

namespace quire {

/// Matrix products by whichever is faster for a shape: the vendor's library or, for few rows, our own kernel.
class Products {
 public:
  /// `expanded`: where rows of quantised weights, or of x, are put for the library, of so many bytes: 8 rows at least
  /// of any weight.
  Products(Device& device, void* expanded, int64_t expanded_bytes)
      : device_(device), gemm_(device), expanded_(expanded), expanded_bytes_(expanded_bytes) {}

  static constexpr int64_t kWorkspaceBytes = Gemm::kWorkspaceBytes;

  /// Queues the product by the way that Tune found to be the faster, or by the library.
  void Run(const GemmParams& params);

  /// Measures both for this shape; see Gemm::Tune.
  void Tune(const GemmParams& params, std::span<const void* const> weights);

 private:
  /// Few rows by a kernel that reads the weight as it is; for many the library multiplies a part of it after another,
  /// each expanded before.
  void RunQuantized(const GemmParams& params);

  /// Likewise of many rows of x, rounded to FP8, with a weight of FP8; false where the library has no such product.
  bool RunFp8(const GemmParams& params);

  using Shape = std::tuple<bool, int64_t, int64_t, int64_t>;  // fp32 result, m, n, k

  Device& device_;
  Gemm gemm_;
  void* expanded_;
  int64_t expanded_bytes_;
  std::map<std::pair<int64_t, int64_t>, bool> has_fp8_;  // the library, by n and k
  std::map<Shape, kernels::SkinnyTile> skinny_;          // the shapes that our own kernel wins, and how
};

}  // namespace quire

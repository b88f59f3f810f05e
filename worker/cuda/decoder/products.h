#pragma once

#include <map>
#include <span>
#include <tuple>

#include "kernels/cuda/products/skinny_gemm.h"
#include "worker/cuda/device/gemm.h"

namespace quire {

/// Matrix products. A shape for which Tune was called is computed in the faster of two ways: by the vendor's library
/// or, for few rows, by our own kernel. Products with quantised weights need no Tune.
class Products {
 public:
  /// `expanded`: scratch memory of `expanded_bytes` bytes for rows of quantised weights, or of x, that the library
  /// reads. It must have room for at least 8 rows of any weight.
  Products(Device& device, void* expanded, int64_t expanded_bytes)
      : device_(device), gemm_(device), expanded_(expanded), expanded_bytes_(expanded_bytes) {}

  static constexpr int64_t kWorkspaceBytes = Gemm::kWorkspaceBytes;

  /// Queues the product. With a plain weight, runs it in the way that Tune found to be faster, or else with the
  /// library.
  void Run(const GemmParams& params);

  /// Measures the kernel and the library for this shape, so that Run takes the faster one; see Gemm::Tune.
  void Tune(const GemmParams& params, std::span<const void* const> weights);

 private:
  /// Multiplies by a quantised weight. For few rows, a kernel reads the weight directly. For many rows, one part of the
  /// weight after another is expanded, and the library multiplies by it.
  void RunQuantized(const GemmParams& params);

  /// Multiplies many rows by an FP8 weight: rounds x to FP8 for the library. Returns false if the library has no such
  /// product.
  bool RunFp8(const GemmParams& params);

  using Shape = std::tuple<bool, int64_t, int64_t, int64_t>;  // fp32 result, m, n, k

  Device& device_;
  Gemm gemm_;
  void* expanded_;
  int64_t expanded_bytes_;
  std::map<std::pair<int64_t, int64_t>, bool> has_fp8_;  // keyed by n and k
  std::map<Shape, kernels::SkinnyTile> skinny_;          // shapes for which our kernel is faster, with its tile
};

}  // namespace quire

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "kernels/cuda/paged_cache.h"
#include "worker/cuda/device.h"

namespace quire {

/// y = scale * x * weight^T with fp32 accumulation. All of one type, but y may be fp32; all begin at 16 bytes.
struct GemmParams {
  NumberType dtype;
  const void* x;       // [m, k], rows x_stride elements apart
  const void* weight;  // [n, k]
  void* y;             // [m, n], rows y_stride elements apart
  int64_t x_stride, y_stride;
  int64_t m, n, k;  // k and the strides: multiples of 8
  bool float_result = false;
  float scale = 1;
  std::optional<NumberType> quantized = {};  // the weight is a kernels::QuantizedMatrix; for Products alone
  /// [m] and [n], on the device: x and weight are FP8 E4M3, y(i, j) = scale * x_scales[i] * weight_scales[j] * sum; k,
  /// n and x_stride are multiples of 16. Null: they are of the dtype.
  const float *x_scales = nullptr, *weight_scales = nullptr;
};

/// Matrix products by the vendor's library. There are two implementations: over cuBLASLt (gemm_cublaslt.cc), and for
/// tests (tests/worker/cuda/emulated_gemm.cc).
class Gemm {
 public:
  /// Takes kWorkspaceBytes of the device, which outlives it.
  explicit Gemm(Device& device);
  ~Gemm();

  static constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;

  /// Queues the product, by the algorithm that Tune chose for its shape or by the library's first guess.
  void Run(const GemmParams& params);

  /// Whether the library has the product on this device: of FP8, newer ones with some versions alone.
  bool Has(const GemmParams& params) const;

  /// Times the library's best guesses for this shape, with y as scratch, and keeps the fastest. Each run takes the next
  /// of `weights`, so that none is found in a cache. Not while a graph is recorded. Returns the fastest one's seconds.
  double Tune(const GemmParams& params, std::span<const void* const> weights);

 private:
  struct Plans;
  Device& device_;
  DeviceMemory workspace_;
  std::unique_ptr<Plans> plans_;
};

}  // namespace quire

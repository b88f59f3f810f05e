#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "kernels/cuda/paged_cache.h"
#include "worker/cuda/device/device.h"

namespace quire {

/// y = scale * x * weight^T with fp32 accumulation. x, weight and y have the type `dtype`, except that y may be fp32.
/// These three arrays are aligned to 16 bytes, also in each product of a batch.
struct GemmParams {
  NumberType dtype;
  const void* x;       // [m, k], rows x_stride elements apart
  const void* weight;  // [n, k]
  void* y;             // [m, n], rows y_stride elements apart
  int64_t x_stride, y_stride;
  int64_t m, n, k;  // k and the strides: multiples of 8
  bool float_result = false;
  float scale = 1;
  int64_t batch = 1;                                   // products of equal sizes, in one call; only in the dtype
  int64_t x_apart = 0, weight_apart = 0, y_apart = 0;  // elements from one product of the batch to the next
  std::optional<NumberType> quantized = {};            // type of a kernels::QuantizedMatrix; only for Products
  /// The scales of x [m] and of the weight [n], on the device, when both are FP8 E4M3: y(i, j) = scale * x_scales[i] *
  /// weight_scales[j] * sum. With scales, k, n and x_stride must be multiples of 16. Null: x and weight have the type
  /// `dtype`.
  const float *x_scales = nullptr, *weight_scales = nullptr;
};

/// Matrix products by the vendor's library. There are two implementations: cuBLASLt (gemm_cublaslt.cc) and one for
/// tests (tests/worker/cuda/emulated_gemm.cc).
class Gemm {
 public:
  /// Takes kWorkspaceBytes of device memory. The device must outlive this object.
  explicit Gemm(Device& device);
  ~Gemm();

  static constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;

  /// Queues the product, with the algorithm that Tune has chosen for its shape, or else with the first algorithm that
  /// the library suggests.
  void Run(const GemmParams& params);

  /// True if the library supports the product on this device. FP8 depends on device and library version.
  bool Has(const GemmParams& params) const;

  /// Times the algorithms that the library suggests first for this shape, and uses the fastest one from then on.
  /// Overwrites y. Each run takes the next of `weights`, so that no weight is in a cache. Must not run while a graph is
  /// captured. Returns the seconds of the fastest algorithm.
  double Tune(const GemmParams& params, std::span<const void* const> weights);

 private:
  struct Plans;
  Device& device_;
  DeviceMemory workspace_;
  std::unique_ptr<Plans> plans_;
};

}  // namespace quire

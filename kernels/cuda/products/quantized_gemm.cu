#include "kernels/check.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/products/quantize_rows.cuh"
#include "kernels/cuda/products/quantized_gemm.cuh"

namespace quire::kernels {

namespace {

template <class T, NumberType kType, int kBatch, int kBlocks>
void LaunchTile(const CudaStream& stream, const QuantizedGemmParams& p) {
  using Kernel = QuantizedGemmKernel<T, kType, kBatch, kBlocks>;
  const int64_t tiles = (p.weight.n + Kernel::kTileRows - 1) / Kernel::kTileRows;
  simt::Launch<Kernel>({tiles}, Kernel::kThreads, Kernel::kSharedSize, stream, p);
}

/// Launches the kernel for m rows. Every thread block reads all of x, so wide tiles read x less often. The registers
/// for sums and weights limit the width of tiles.
template <class T, NumberType kType>
void LaunchBatch(const CudaStream& stream, const QuantizedGemmParams& p) {
  constexpr int kBlocks = kMostTileBlocks<kType>;
  if (p.m <= 8) return LaunchTile<T, kType, 8, kBlocks>(stream, p);
  if (p.m <= 16) return LaunchTile<T, kType, 16, kBlocks>(stream, p);
  if (p.m <= 32) return LaunchTile<T, kType, 32, kBlocks / 2>(stream, p);
  return LaunchTile<T, kType, 64, kBlocks / 2>(stream, p);
}

template <class T, NumberType kType>
void LaunchExpand(const CudaStream& stream, const ExpandQuantizedParams& p) {
  using Kernel = ExpandQuantizedKernel<T, kType>;
  const int64_t pieces = p.rows * p.weight.k / Kernel::Piece::kNumbers;
  simt::Launch<Kernel>({(pieces + Kernel::kThreads - 1) / Kernel::kThreads}, Kernel::kThreads, 0, stream, p);
}

void Check(const QuantizedMatrix& weight) {
  QUIRE_KERNEL_CHECK(IsQuantizedOnDevice(weight.type) && Aligned(weight.data));
  QUIRE_KERNEL_CHECK(weight.n >= 1 && weight.k >= 32 && weight.k % 32 == 0);
}

}  // namespace

void QuantizedGemm(const CudaStream& stream, const QuantizedGemmParams& p) {
  Check(p.weight);
  QUIRE_KERNEL_CHECK(p.m >= 1 && p.m <= kQuantizedMaxRows);
  QUIRE_KERNEL_CHECK(Aligned(p.x) && p.x_stride % 8 == 0 && p.out != p.x);
  WithQuantizedType(p.dtype, p.weight.type, [&]<class T, NumberType kType>() { LaunchBatch<T, kType>(stream, p); });
}

void QuantizeRows(const CudaStream& stream, const QuantizeRowsParams& p) {
  QUIRE_KERNEL_CHECK(Aligned(p.x) && p.x_stride % 8 == 0 && Aligned(p.out) && p.k >= 16 && p.k % 16 == 0);
  if (p.m == 0) return;
  const auto launch = [&](auto t) {
    using Kernel = QuantizeRowsKernel<decltype(t)>;
    simt::Launch<Kernel>({p.m}, Kernel::kThreads, Kernel::kSharedSize, stream, p);
  };
  QUIRE_KERNEL_CHECK(p.dtype == NumberType::kF16 || p.dtype == NumberType::kBF16);
  p.dtype == NumberType::kF16 ? launch(simt::Half()) : launch(simt::BFloat16());
}

void ExpandQuantized(const CudaStream& stream, const ExpandQuantizedParams& p) {
  Check(p.weight);
  QUIRE_KERNEL_CHECK(Aligned(p.out) && p.first_row >= 0 && p.rows >= 1 && p.first_row + p.rows <= p.weight.n);
  WithQuantizedType(p.dtype, p.weight.type, [&]<class T, NumberType kType>() { LaunchExpand<T, kType>(stream, p); });
}

}  // namespace quire::kernels

#include "kernels/check.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/products/skinny_gemm.cuh"

namespace quire::kernels {

namespace {

template <class T, int kBatch, int kBlocks>
void LaunchTile(const CudaStream& stream, const SkinnyGemmParams& p) {
  const auto launch = [&]<class Kernel>(Kernel) {
    const int64_t tiles = (p.n + Kernel::kTileRows - 1) / Kernel::kTileRows;
    simt::Launch<Kernel>({tiles}, Kernel::kThreads, Kernel::kSharedSize, stream, p);
  };
  if (p.norm_weight != nullptr) {
    launch(SkinnyGemmKernel<T, kBatch, kBlocks, true>{});
  } else {
    launch(SkinnyGemmKernel<T, kBatch, kBlocks, false>{});
  }
}

/// Launches the kernel for m rows. Every thread block reads all of x, so wide tiles read x less often; narrow tiles
/// fill the GPU if n is small. If p.tile is kByShape, tiles are wide if there are enough of them for (nearly) all 132
/// multiprocessors of an H100, or for half of the multiprocessors if x has more than 16 rows.
template <class T, int kBatch, int kNarrow, int kWide>
void LaunchBatch(const CudaStream& stream, const SkinnyGemmParams& p) {
  const int64_t enough = kBatch <= 16 ? 128 : 64;
  const bool by_shape = p.n >= enough * kWide * 16;
  if (p.tile == SkinnyTile::kWide || (p.tile == SkinnyTile::kByShape && by_shape)) {
    LaunchTile<T, kBatch, kWide>(stream, p);
  } else {
    LaunchTile<T, kBatch, kNarrow>(stream, p);
  }
}

template <class T>
void LaunchOfType(const CudaStream& stream, const SkinnyGemmParams& p) {
  switch (SkinnyBatch(p.m)) {
    case 8:
      return LaunchBatch<T, 8, 1, 2>(stream, p);
    case 16:
      return LaunchBatch<T, 16, 2, 4>(stream, p);
    case 32:
      return LaunchBatch<T, 32, 2, 4>(stream, p);
    default:
      return LaunchBatch<T, 64, 2, 4>(stream, p);
  }
}

}  // namespace

void SkinnyGemm(const CudaStream& stream, const SkinnyGemmParams& p) {
  QUIRE_KERNEL_CHECK(SkinnyGemmSupports(p.dtype, p.m, p.n, p.k));
  QUIRE_KERNEL_CHECK(Aligned(p.x) && Aligned(p.weight) && Aligned(p.norm_weight) && p.x_stride % 8 == 0);
  QUIRE_KERNEL_CHECK(p.out != p.x);
  QUIRE_KERNEL_CHECK(p.epilogue != SkinnyEpilogue::kGateMul || p.n % 16 == 0);
  if (p.dtype == NumberType::kF16) {
    LaunchOfType<simt::Half>(stream, p);
  } else {
    LaunchOfType<simt::BFloat16>(stream, p);
  }
}

}  // namespace quire::kernels

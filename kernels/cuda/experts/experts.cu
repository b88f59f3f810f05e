#include "kernels/check.h"
#include "kernels/cuda/experts/expert_matmul.cuh"
#include "kernels/cuda/experts/quantized_expert_matmul.cuh"
#include "kernels/cuda/experts/route_experts.cuh"
#include "kernels/cuda/launch.cuh"

// Checks and launches of the ops for mixtures of experts.
namespace quire::kernels {

namespace {

template <class Kernel>
void LaunchProduct(const CudaStream& stream, const typename Kernel::Params& p) {
  const int64_t tiles = (p.n + Kernel::kTileRows - 1) / Kernel::kTileRows;
  simt::Launch<Kernel>({tiles, p.num_experts}, Kernel::kThreads, Kernel::kSharedSize, stream, p);
}

/// Launches the kernel for 8 rows of an expert at a time; if experts have more than 8 rows on average, for 32, so that
/// weights are read less often.
template <class T>
void LaunchOfType(const CudaStream& stream, const CudaExpertMatmulParams& p) {
  if (p.num_rows <= 8 * p.num_experts) {
    LaunchProduct<ExpertMatmulKernel<T, 8>>(stream, p);
  } else {
    LaunchProduct<ExpertMatmulKernel<T, 32>>(stream, p);
  }
}

/// Launches the kernel for quantised weights, with 8 or 32 rows of an expert at a time: 64 would exceed the registers.
template <class T, NumberType kType>
void LaunchQuantized(const CudaStream& stream, const CudaExpertMatmulParams& p) {
  constexpr int kBlocks = kMostTileBlocks<kType>;
  if (p.num_rows <= 8 * p.num_experts) {
    LaunchProduct<QuantizedExpertKernel<T, kType, 8, kBlocks>>(
        stream, {p, *p.quantized, QuantizedBytes(*p.quantized, p.n, p.k)});
  } else {
    LaunchProduct<QuantizedExpertKernel<T, kType, 32, kBlocks / 2>>(
        stream, {p, *p.quantized, QuantizedBytes(*p.quantized, p.n, p.k)});
  }
}

}  // namespace

void RouteExperts(const CudaStream& stream, const RouteExpertsParams& p) {
  QUIRE_KERNEL_CHECK(p.num_experts <= kMostExperts && p.experts_per_token <= kMostExpertsPerToken);
  QUIRE_KERNEL_CHECK(p.num_experts % p.num_groups == 0 && (p.num_groups == 1 || p.num_experts >= 2 * p.num_groups));
  QUIRE_KERNEL_CHECK(p.experts_per_token <= p.num_experts / p.num_groups * p.groups_per_token);
  if (p.num_tokens == 0) return;
  using Kernel = RouteExpertsKernel;
  simt::Launch<Kernel>({p.num_tokens}, Kernel::kThreads, Kernel::SharedSize(p.num_experts), stream, p);
}

void GroupByExpert(const CudaStream& stream, const GroupByExpertParams& p) {
  using Kernel = GroupByExpertKernel;
  simt::Launch<Kernel>({p.num_experts + 1}, Kernel::kThreads, Kernel::kSharedSize, stream, p);
}

void ExpertMatmul(const CudaStream& stream, const CudaExpertMatmulParams& p) {
  QUIRE_KERNEL_CHECK(Aligned(p.x) && Aligned(p.weight) && p.k % 8 == 0);
  if (p.num_rows == 0 || p.num_experts == 0 || p.n == 0) return;
  if (p.quantized) {
    QUIRE_KERNEL_CHECK(IsQuantizedOnDevice(*p.quantized) && p.k >= 32 && p.k % 32 == 0);
    QUIRE_KERNEL_CHECK(QuantizedBytes(*p.quantized, p.n, p.k) % 16 == 0);
    return WithQuantizedType(p.dtype, *p.quantized,
                             [&]<class T, NumberType kType>() { LaunchQuantized<T, kType>(stream, p); });
  }
  switch (p.dtype) {
    case NumberType::kF32:
      return LaunchProduct<ExpertMatmulKernel<float, 8>>(stream, p);
    case NumberType::kF16:
      return LaunchOfType<simt::Half>(stream, p);
    case NumberType::kBF16:
      return LaunchOfType<simt::BFloat16>(stream, p);
    default:
      QUIRE_KERNEL_CHECK(!"CUDA ops compute in fp32, fp16 and bf16");
  }
}

void CombineExperts(const CudaStream& stream, const CombineExpertsParams& p) {
  QUIRE_KERNEL_CHECK(p.columns * ByteSize(p.dtype) % 16 == 0 && Aligned(p.rows) && Aligned(p.shared) && Aligned(p.out));
  if (p.num_tokens == 0) return;
  WithType(p.dtype, [&](auto t) {
    using Kernel = CombineExpertsKernel<decltype(t)>;
    const int64_t pieces = (p.columns + Kernel::kThreads * Kernel::kVec - 1) / (Kernel::kThreads * Kernel::kVec);
    simt::Launch<Kernel>({p.num_tokens, pieces}, Kernel::kThreads, 0, stream, p);
  });
}

}  // namespace quire::kernels

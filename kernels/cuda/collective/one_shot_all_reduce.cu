#include "kernels/check.h"
#include "kernels/cuda/collective/one_shot_all_reduce.cuh"
#include "kernels/cuda/launch.cuh"

namespace quire::kernels {

namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

void CheckGroup(const OneShotGroup& group, int64_t bytes) {
  QUIRE_KERNEL_CHECK(group.size >= 1 && group.size <= kMaxOneShotRanks);
  QUIRE_KERNEL_CHECK(group.rank >= 0 && group.rank < group.size);
  QUIRE_KERNEL_CHECK(group.capacity % 16 == 0 && bytes <= group.capacity);
  for (int r = 0; r < group.size; ++r) QUIRE_KERNEL_CHECK(group.arenas[r] != nullptr && Aligned(group.arenas[r]));
}

}  // namespace

void OneShotAllReduce(const CudaStream& stream, const OneShotAllReduceParams& p) {
  CheckGroup(p.group, p.count * ByteSize(p.dtype));
  QUIRE_KERNEL_CHECK(Aligned(p.in) && Aligned(p.out));
  if (p.count == 0) return;
  WithType(p.dtype, [&](auto t) {
    using Kernel = OneShotAllReduceKernel<decltype(t)>;
    constexpr int64_t kVec = 16 / sizeof(t);
    const int64_t vectors = CeilDiv(p.count, kVec);
    const int64_t most = simt::Min<int64_t>(CeilDiv(vectors, Kernel::kThreads), kMaxOneShotBlocks);
    const int64_t piece = CeilDiv(vectors, most) * kVec;
    simt::Launch<Kernel>({CeilDiv(p.count, piece)}, Kernel::kThreads, Kernel::kSharedSize, stream, {p, piece});
  });
}

void OneShotAllReduceRmsNorm(const CudaStream& stream, const OneShotAllReduceRmsNormParams& p) {
  const RmsNormParams& norm = p.norm;
  CheckGroup(p.group, norm.num_tokens * norm.hidden * ByteSize(norm.dtype));
  QUIRE_KERNEL_CHECK(norm.hidden * ByteSize(norm.dtype) % 16 == 0 && norm.delta != nullptr);
  QUIRE_KERNEL_CHECK(Aligned(norm.residual) && Aligned(norm.delta) && Aligned(norm.weight) && Aligned(norm.out));
  if (norm.num_tokens == 0) return;
  WithType(norm.dtype, [&](auto t) {
    using Kernel = OneShotAllReduceRmsNormKernel<decltype(t)>;
    const int64_t rows = CeilDiv(norm.num_tokens, kMaxOneShotBlocks);
    simt::Launch<Kernel>({CeilDiv(norm.num_tokens, rows)}, Kernel::kThreads, Kernel::kSharedSize, stream, {p, rows});
  });
}

}  // namespace quire::kernels

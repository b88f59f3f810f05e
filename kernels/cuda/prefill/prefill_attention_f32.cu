#include "kernels/cuda/prefill/prefill_attention_launch.cuh"

namespace quire::kernels {

namespace {

template <class C>
void PrefillF32OfCache(const CudaStream& stream, const PrefillLaunch& launch) {
  if (launch.op.cache.head_size > 256) {
    LaunchPrefill<PrefillAttentionScalarKernel<float, C, 512>>(stream, launch);
  } else {
    LaunchPrefill<PrefillAttentionScalarKernel<float, C, 256>>(stream, launch);
  }
}

}  // namespace

void PrefillF32(const CudaStream& stream, const PrefillLaunch& launch) {
  QUIRE_KERNEL_CHECK(launch.op.num_merges == 0);
  if (launch.op.cache.type != NumberType::kFp8E4M3) {
    PrefillF32OfCache<float>(stream, launch);
  } else {
    PrefillF32OfCache<simt::Fp8E4M3>(stream, launch);
  }
}

}  // namespace quire::kernels

#include "kernels/cuda/prefill/prefill_attention_f32.cuh"
#include "kernels/cuda/prefill/prefill_attention_launch.cuh"

namespace quire::kernels {

void PrefillF32(const CudaStream& stream, const PrefillLaunch& launch) {
  if (launch.op.cache.type != NumberType::kFp8E4M3) {
    LaunchPrefill<PrefillAttentionF32Kernel<float>>(stream, launch);
  } else {
    LaunchPrefill<PrefillAttentionF32Kernel<simt::Fp8E4M3>>(stream, launch);
  }
}

}  // namespace quire::kernels

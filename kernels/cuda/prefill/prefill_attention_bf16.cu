#include "kernels/cuda/prefill/prefill_attention_launch.cuh"

namespace quire::kernels {

void PrefillBF16(const CudaStream& stream, const PrefillLaunch& launch) {
  PrefillOfType<simt::BFloat16>(stream, launch);
}

}  // namespace quire::kernels

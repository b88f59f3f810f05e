#include "kernels/cuda/prefill/prefill_attention_launch.cuh"

namespace quire::kernels {

void PrefillF16(const CudaStream& stream, const PrefillLaunch& launch) { PrefillOfType<simt::Half>(stream, launch); }

}  // namespace quire::kernels

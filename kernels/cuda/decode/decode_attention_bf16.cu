#include "kernels/cuda/decode/decode_attention_launch.cuh"

namespace quire::kernels {

void DecodeAttentionBF16(const CudaStream& stream, const DecodeAttentionLaunch& launch) {
  DecodeAttentionOfType<simt::BFloat16>(stream, launch);
}

}  // namespace quire::kernels

#include "kernels/cuda/decode/decode_attention_launch.cuh"

namespace quire::kernels {

void DecodeAttentionF16(const CudaStream& stream, const DecodeAttentionLaunch& launch) {
  DecodeAttentionOfType<simt::Half>(stream, launch);
}

}  // namespace quire::kernels

#include "kernels/cuda/paged/paged_decode_launch.cuh"

namespace quire::kernels {

void DecodeBF16(const CudaStream& stream, const DecodeLaunch& launch) { DecodeOfType<simt::BFloat16>(stream, launch); }

}  // namespace quire::kernels

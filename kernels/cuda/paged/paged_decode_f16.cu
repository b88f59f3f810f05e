#include "kernels/cuda/paged/paged_decode_launch.cuh"

namespace quire::kernels {

void DecodeF16(const CudaStream& stream, const DecodeLaunch& launch) { DecodeOfType<simt::Half>(stream, launch); }

}  // namespace quire::kernels

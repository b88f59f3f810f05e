#include "kernels/cuda/paged/paged_decode_launch.cuh"

namespace quire::kernels {

void DecodeF32(const CudaStream& stream, const DecodeLaunch& launch) { DecodeOfType<float>(stream, launch); }

}  // namespace quire::kernels

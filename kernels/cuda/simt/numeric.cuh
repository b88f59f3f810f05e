#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

// Number formats and functions of the device. tests/simt/numeric.h has the emulator's versions.
namespace quire::simt {

using Half = __half;
using BFloat16 = __nv_bfloat16;
struct Fp8E4M3 {
  __nv_fp8_storage_t bits;
};

__host__ __device__ inline float ToFloat(Half x) { return __half2float(x); }
__host__ __device__ inline float ToFloat(BFloat16 x) { return __bfloat162float(x); }
__host__ __device__ inline float ToFloat(Fp8E4M3 x) {
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(x.bits, __NV_E4M3)));
}
__host__ __device__ inline float ToFloat(float x) { return x; }

template <class T>
__host__ __device__ T FromFloat(float x);
template <>
__host__ __device__ inline Half FromFloat<Half>(float x) {
  return __float2half_rn(x);
}
template <>
__host__ __device__ inline BFloat16 FromFloat<BFloat16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__host__ __device__ inline Fp8E4M3 FromFloat<Fp8E4M3>(float x) {
  return {__nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3)};
}
template <>
__host__ __device__ inline float FromFloat<float>(float x) {
  return x;
}

__device__ inline float Exp(float x) { return expf(x); }
/// Returns 2^x with an error of at most 2 units in the last place. Results below 2^-126 are 0.
__device__ inline float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float Tanh(float x) { return tanhf(x); }
__device__ inline float Rsqrt(float x) { return rsqrtf(x); }
/// Returns log(1 + x).
__device__ inline float Log1p(float x) { return log1pf(x); }
__device__ inline double Log(double x) { return log(x); }
/// Max and Min return the larger or the smaller of two floats, by one instruction. If one float is NaN, the result is
/// the other float.
__host__ __device__ inline float Max(float a, float b) { return fmaxf(a, b); }
__host__ __device__ inline float Min(float a, float b) { return fminf(a, b); }
template <class T>
__host__ __device__ T Max(T a, T b) {
  return a > b ? a : b;
}
template <class T>
__host__ __device__ T Min(T a, T b) {
  return a < b ? a : b;
}

}  // namespace quire::simt

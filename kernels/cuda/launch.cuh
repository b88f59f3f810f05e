#pragma once

#include <simt/device.cuh>

#include "kernels/check.h"
#include "kernels/cuda/paged_cache.h"

// Helpers for the functions that check and launch kernels.
namespace quire::kernels {

inline bool Aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

/// Calls `body` with a value of the C++ type that `dtype` names.
template <class Body>
void WithType(NumberType dtype, Body body) {
  switch (dtype) {
    case NumberType::kF32:
      return body(float{});
    case NumberType::kF16:
      return body(simt::Half{});
    case NumberType::kBF16:
      return body(simt::BFloat16{});
    default:
      QUIRE_KERNEL_CHECK(!"CUDA ops compute in fp32, fp16 and bf16");
  }
}

/// Calls run.operator()<T, type>() for a 16-bit dtype and a quantised type of device memory. `type` is kQ6_K for kQ5_K,
/// too, and kFp8E4M3 for kFp8Groups, too.
template <class Run>
void WithQuantizedType(NumberType dtype, NumberType type, const Run& run) {
  QUIRE_KERNEL_CHECK(dtype == NumberType::kF16 || dtype == NumberType::kBF16);
  const auto of_type = [&]<class T>(T) {
    switch (type) {
      case NumberType::kQ4_1:
        return run.template operator()<T, NumberType::kQ4_1>();
      case NumberType::kMxFp4:
        return run.template operator()<T, NumberType::kMxFp4>();
      case NumberType::kQ5_K:
      case NumberType::kQ6_K:
        return run.template operator()<T, NumberType::kQ6_K>();
      case NumberType::kFp8E4M3:
      case NumberType::kFp8Groups:
        return run.template operator()<T, NumberType::kFp8E4M3>();
      default:
        QUIRE_KERNEL_CHECK(type == NumberType::kQ8_0);
        return run.template operator()<T, NumberType::kQ8_0>();
    }
  };
  dtype == NumberType::kF16 ? of_type(simt::Half()) : of_type(simt::BFloat16());
}

/// Aborts unless the cache's type is E4M3, or is `dtype` with scales of 1.
inline void CheckCacheType(NumberType dtype, const PagedCache& cache) {
  QUIRE_KERNEL_CHECK(cache.type == NumberType::kFp8E4M3 ||
                     (cache.type == dtype && cache.k_scale == 1 && cache.v_scale == 1));
}

}  // namespace quire::kernels

#pragma once

#include <simt/device.cuh>

#include "kernels/cuda/paged_cache.h"

// What the functions that check and launch kernels share.
namespace quire::kernels {

inline bool Aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

/// Calls body with a value of the type that dtype names.
template <class Body>
void WithType(DType dtype, Body body) {
  switch (dtype) {
    case DType::kF32:
      return body(float{});
    case DType::kF16:
      return body(simt::Half{});
    case DType::kBF16:
      return body(simt::BFloat16{});
  }
}

}  // namespace quire::kernels

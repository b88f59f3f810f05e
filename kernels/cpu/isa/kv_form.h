#pragma once

#include "kernels/cpu/isa/kv_numbers.h"
#include "kernels/cpu/isa/table.h"

// As which numbers attention takes what a KV cache holds.
namespace quire::kernels::QUIRE_ISA {

/// With AVX2 alone products of floats are faster.
inline constexpr bool kBytesPay = kByteProducts == ByteProducts::kAll || kLanes != 8;

/// Blocks and heads of whole vectors of any instruction set are multiplied as bytes.
inline bool MultipliesBytes(const PagedAttentionParams& p) {
  constexpr int64_t kWidestVector = 16;
  return kBytesPay && p.activations == Activations::kInt8 && p.cache.type == NumberType::kInt8 &&
         p.cache.block_size % kWidestVector == 0 && p.cache.head_dim % kWidestVector == 0;
}

/// Calls run.template operator()<T>() for the numbers of the cache.
template <class Run>
void WithKvNumbers(const PagedAttentionParams& p, const Run& run) {
  if (MultipliesBytes(p)) return run.template operator()<Byte>();
  switch (p.cache.type) {
    case NumberType::kF32:
      return run.template operator()<float>();
    case NumberType::kF16:
      return run.template operator()<Half>();
    case NumberType::kInt8:
      return run.template operator()<int8_t>();
    default:
      __builtin_trap();  // KvHeadBytes lets no other type pass
  }
}

}  // namespace quire::kernels::QUIRE_ISA

#pragma once

#include "kernels/cpu/isa/kv_numbers.h"
#include "kernels/cpu/isa/table.h"

// Chooses the number type in which attention reads the KV cache.
namespace quire::kernels::QUIRE_ISA {

/// True if attention on bytes is faster than on floats, as on all instruction sets but AVX2 without VNNI.
inline constexpr bool kBytesPay = kByteProducts == ByteProducts::kAll || kLanes != 8;

/// True if attention multiplies bytes: this is faster with this instruction set, the caller asks for 8-bit activations,
/// and the cache has bytes. The block size and the head dimension must also be multiples of 16, the longest vector
/// length of all instruction sets.
inline bool MultipliesBytes(const PagedAttentionParams& p) {
  constexpr int64_t kWidestVector = 16;
  return kBytesPay && p.activations == Activations::kInt8 && p.cache.type == NumberType::kInt8 &&
         p.cache.block_size % kWidestVector == 0 && p.cache.head_dim % kWidestVector == 0;
}

/// Calls run.template operator()<T>() with the number type T of the cache.
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
      __builtin_trap();  // KvHeadBytes rejects other types
  }
}

}  // namespace quire::kernels::QUIRE_ISA

#pragma once

#include <cstdint>

namespace quire::kernels::QUIRE_ISA {

inline constexpr int kLanes = QUIRE_LANES;
typedef float Vec __attribute__((vector_size(QUIRE_LANES * 4)));
typedef int32_t IntVec __attribute__((vector_size(QUIRE_LANES * 4)));
typedef uint16_t ShortVec __attribute__((vector_size(QUIRE_LANES * 2)));
typedef int8_t SignedByteVec __attribute__((vector_size(QUIRE_LANES)));
typedef int16_t SignedShortVec __attribute__((vector_size(QUIRE_LANES * 2)));
typedef int16_t PairVec __attribute__((vector_size(QUIRE_LANES * 4)));   // two numbers per lane
typedef uint16_t CellVec __attribute__((vector_size(QUIRE_LANES * 4)));  // four bytes or eight nibbles per lane
typedef uint8_t Bytes16 __attribute__((vector_size(16)));
typedef int8_t SignedBytes16 __attribute__((vector_size(16)));
typedef uint16_t Shorts16 __attribute__((vector_size(32)));
typedef int16_t SignedShorts16 __attribute__((vector_size(32)));

/// The weight types for which the instruction set's 8-bit products are faster than its 16-bit products.
enum class ByteProducts {
  kNone,
  kOfNibbles,  // products of nibbles, with 16-bit sums that products of whole bytes would overflow
  kAll
};

template <class V, class T>
inline V LoadAs(const T* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof(V));
  return v;
}
}  // namespace quire::kernels::QUIRE_ISA

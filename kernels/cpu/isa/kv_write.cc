// Writes new keys and values into the layout of the KV cache.
#include "kernels/cpu/isa/functions.h"
#include "kernels/cpu/isa/rounding.h"

namespace quire::kernels::QUIRE_ISA {

namespace {

/// The place of a token's vector in a head's part of a block. The vector's numbers begin at `first` and are `stride`
/// apart.
struct Places {
  std::byte* head;
  int64_t offset;  // index of the slot in the block
  int64_t first, stride;
};

void Write(const Places& at, const float* vector, int64_t dim) {
  auto* const to = reinterpret_cast<float*>(at.head) + at.first;
  for (int64_t d = 0; d < dim; ++d) to[d * at.stride] = vector[d];
}

/// Loads the vector's numbers from d on; lanes past its end are 0.
Vec LoadFrom(const float* vector, int64_t d, int64_t dim) {
  return dim - d >= kLanes ? Load(vector + d) : LoadPart(vector + d, dim - d);
}

/// Stores the numbers of the dimensions from d on, up to the end of the vector.
template <class Numbers, class T>
void StoreTo(T* to, int64_t stride, int64_t d, int64_t dim, Numbers numbers) {
  const int64_t count = Least(dim - d, kLanes);
  if (stride == 1 && count == kLanes) {
    __builtin_memcpy(to + d, &numbers, sizeof(numbers));
  } else {
    for (int64_t i = 0; i < count; ++i) to[(d + i) * stride] = numbers[i];
  }
}

Extent ExtentOf(const float* vector, int64_t dim) {
  Extent extent;
  for (int64_t d = 0; d < dim; d += kLanes) extent.Take(LoadFrom(vector, d, dim));
  return extent;
}

/// Writes a vector as fp16. Numbers beyond fp16's range become NaN: an infinite key could set a token's weight to 0 and
/// leave a finite, wrong result.
void WriteHalves(const Places& at, const float* vector, int64_t dim) {
  auto* const to = reinterpret_cast<uint16_t*>(at.head) + at.first;
  const Vec too_large = Splat(65520.0f), nan = Splat(__builtin_nanf(""));
  for (int64_t d = 0; d < dim; d += kLanes) {
    const Vec v = LoadFrom(vector, d, dim);
    StoreTo(to, at.stride, d, dim, FloatToHalf(Max(v, -v) < too_large ? v : nan));
  }
}

/// Writes a vector as bytes: rounds to the nearest of 255 multiples of the vector's own scale. If a number is not
/// finite, the scale is NaN and all bytes are 0.
void WriteBytes(const Places& at, const float* vector, int64_t dim, int64_t block_size) {
  const Extent extent = ExtentOf(vector, dim);
  const float most = extent.most(), scale = most / 127 + extent.spoilt();
  reinterpret_cast<float*>(at.head)[at.offset] = scale;
  auto* const to = reinterpret_cast<int8_t*>(at.head) + block_size * static_cast<int64_t>(sizeof(float)) + at.first;
  const float inverse = scale > 0 ? 127 / most : 0;
  const Vec factor = Splat(inverse < __builtin_inff() ? inverse : 0);
  for (int64_t d = 0; d < dim; d += kLanes) {
    const Vec v = scale > 0 ? LoadFrom(vector, d, dim) * factor : Vec{};  // a NaN scale gives only zeros
    StoreTo(to, at.stride, d, dim, __builtin_convertvector(RoundToInts(v), SignedByteVec));
  }
}

}  // namespace

void KvWriteRows(const KvWriteParams& p, int64_t row_begin, int64_t row_end) {
  const KvCacheView& cache = p.cache;
  const int64_t dim = cache.head_dim;
  const auto write = [&](const Places& at, const float* vector) {
    switch (cache.type) {
      case NumberType::kF32:
        return Write(at, vector, dim);
      case NumberType::kF16:
        return WriteHalves(at, vector, dim);
      case NumberType::kInt8:
        return WriteBytes(at, vector, dim, cache.block_size);
      default:
        __builtin_trap();  // KvHeadBytes rejects other types
    }
  };
  for (int64_t t = row_begin; t < row_end; ++t) {
    const int64_t block = p.slots[t] / cache.block_size, offset = p.slots[t] % cache.block_size;
    for (int64_t h = 0; h < cache.num_kv_heads; ++h) {
      const int64_t head = block * cache.block_stride + h * cache.head_bytes(), vector = t * p.row_stride + h * dim;
      write({cache.keys + head, offset, offset, cache.block_size}, p.keys + vector);
      write({cache.values + head, offset, offset * dim, 1}, p.values + vector);
    }
  }
}

}  // namespace quire::kernels::QUIRE_ISA

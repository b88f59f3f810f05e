#include "comm/model/formats/tensor.h"

#include "comm/base/error.h"

namespace quire {

int64_t CheckedBytes(NumberType type, std::span<const int64_t> shape, const std::string& what) {
  const auto [name, block_numbers, block_bytes] = LayoutOf(type);
  int64_t numbers = 1;
  for (const int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(numbers, extent, &numbers)) Fail("{}: impossible shape", what);
  }
  if (!shape.empty() && shape.back() % block_numbers != 0) {
    Fail("{}: rows of {} numbers do not fill blocks of {}", what, shape.back(), block_numbers);
  }
  int64_t bytes = 0;
  if (__builtin_mul_overflow(numbers / block_numbers, block_bytes, &bytes)) Fail("{}: impossible shape", what);
  return bytes;
}

}  // namespace quire

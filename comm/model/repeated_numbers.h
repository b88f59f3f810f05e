#pragma once

#include <cstddef>
#include <span>

#include "comm/base/number_type.h"

namespace quire {

/// Provides any number of random bytes in little memory, for made-up weights, by mapping one piece of 16 MiB again and
/// again. Every process gets the same numbers.
class RepeatedNumbers {
 public:
  /// The numbers are F32, F16 or BF16, evenly distributed over [-0.05, 0.05]. Throws Error when memory is short.
  RepeatedNumbers(size_t bytes, NumberType type);
  ~RepeatedNumbers();
  RepeatedNumbers(RepeatedNumbers&& other) noexcept;
  RepeatedNumbers& operator=(RepeatedNumbers&&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;  // bytes that are mapped, a multiple of the piece's size
};

/// Stores x as F32, F16 or BF16.
void PutNumber(float x, NumberType type, std::byte* to);

}  // namespace quire

#pragma once

#include <cstddef>
#include <span>

#include "comm/base/number_type.h"

namespace quire {

/// As many bytes of random numbers as are asked for in the memory of a few: one piece of 16 MiB that the address space
/// has again and again. The same numbers in every process.
class RepeatedNumbers {
 public:
  /// Of F32, F16 or BF16, evenly spread over [-0.05, 0.05]. Throws Error when there is no room.
  RepeatedNumbers(size_t bytes, NumberType type);
  ~RepeatedNumbers();
  RepeatedNumbers(RepeatedNumbers&& other) noexcept;
  RepeatedNumbers& operator=(RepeatedNumbers&&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;  // whole pieces
};

/// Stores x as a number of one of these types.
void PutNumber(float x, NumberType type, std::byte* to);

}  // namespace quire

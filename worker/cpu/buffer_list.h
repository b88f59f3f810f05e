#pragma once

#include <cstdint>
#include <vector>

namespace quire {

// A function that lists buffers and their numbers of elements calls one of the two functions below for each buffer.
// ResizeBuffer allocates the buffer, and BufferBytes only adds up the bytes. So one list serves allocation and
// counting.

/// Gives the buffer `count` elements.
inline constexpr auto ResizeBuffer = [](auto& buffer, int64_t count) { buffer.resize(static_cast<size_t>(count)); };

/// Adds up the bytes of buffers without making them.
class BufferBytes {
 public:
  /// Returns a function that counts `count` elements of a buffer. The object must outlive it.
  auto counter() {
    return [this]<class T>(const std::vector<T>&, int64_t count) { sum_ += count * static_cast<int64_t>(sizeof(T)); };
  }
  int64_t sum() const { return sum_; }

 private:
  int64_t sum_ = 0;
};

}  // namespace quire

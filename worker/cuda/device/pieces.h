#pragma once

#include <cstddef>
#include <cstdint>

namespace quire {

/// Divides one reserved memory into pieces. An object with null memory only counts bytes, so that the same code first
/// computes the size and then divides the memory.
class Pieces {
 public:
  explicit Pieces(void* memory = nullptr) : memory_(static_cast<std::byte*>(memory)) {}

  /// Takes memory for `count` elements, aligned to 256 bytes. Returns null if the constructor got null memory.
  template <class T = std::byte>
  T* Take(int64_t count) {
    std::byte* piece = memory_ == nullptr ? nullptr : memory_ + taken_;
    taken_ += (count * static_cast<int64_t>(sizeof(T)) + kAlignment - 1) / kAlignment * kAlignment;
    return reinterpret_cast<T*>(piece);
  }
  int64_t taken() const { return taken_; }

 private:
  static constexpr int64_t kAlignment = 256;

  std::byte* memory_;
  int64_t taken_ = 0;
};

}  // namespace quire

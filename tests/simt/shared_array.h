#pragma once

#include <cstring>
#include <string>

#include "simt/memory.h"

namespace quire::simt {

/// Gives access to an array in the block's shared memory.
template <class T>
class SharedArray {
 public:
  SharedArray(int64_t offset, int64_t count) : offset_(offset), count_(count) {}
  Element<SharedArray, T> operator[](Index i) const { return {*this, i}; }
  /// Returns the part of the array from element i on.
  SharedArray operator+(int64_t i) const { return {offset_ + i * static_cast<int64_t>(sizeof(T)), count_ - i}; }
  template <class U>
  SharedArray<U> As() const {
    return {offset_, count_ * static_cast<int64_t>(sizeof(T)) / static_cast<int64_t>(sizeof(U))};
  }

  template <class V>
  V Read(Index i) const {
    V value;
    std::memcpy(static_cast<void*>(&value), Bytes<V>(i, Access::kRead), sizeof(V));
    return value;
  }
  template <class V>
  void Write(Index i, const V& value) const {
    std::memcpy(Bytes<V>(i, Access::kWrite), static_cast<const void*>(&value), sizeof(V));
  }
  /// Checks and records an access to a V that begins at element i. Returns the bytes of the V.
  template <class V>
  std::byte* Bytes(Index i, Access access) const {
    return Executor::Current().Shared(Offset<V>(i), sizeof(V), access, i.where);
  }
  /// Returns the offset, in the block's shared memory, of a V that begins at element i. Checks bounds and alignment,
  /// but records no access.
  template <class V>
  int64_t Offset(Index i) const {
    Executor& executor = Executor::Current();
    const int64_t elements = sizeof(V) / sizeof(T), at = offset_ + i.value * static_cast<int64_t>(sizeof(T));
    if (i.value < 0 || i.value + elements > count_) {
      executor.Fail("shared array of " + std::to_string(count_) + " accessed at " + std::to_string(i.value), i.where);
    }
    if (at % static_cast<int64_t>(alignof(V)) != 0) executor.Fail("misaligned access to shared memory", i.where);
    return at;
  }

 private:
  int64_t offset_, count_;
};

}  // namespace quire::simt

#pragma once

#include <cstring>
#include <string>

#include "simt/global_memory.h"
#include "simt/memory.h"

namespace quire::simt {

/// Points to registered global memory. Any address may be formed; an address is checked when it is used.
template <class T>
class Global {
 public:
  Global(T* pointer)  // NOLINT: implicit, as a pointer would be
      : address_(reinterpret_cast<uintptr_t>(pointer)), range_(&FindGlobal(address_)) {}
  Element<Global, T> operator[](Index i) const { return {*this, i}; }
  Global operator+(int64_t i) const {
    Global moved = *this;
    moved.address_ += static_cast<uintptr_t>(i * static_cast<int64_t>(sizeof(T)));
    return moved;
  }

  template <class V>
  V Read(Index i) const {
    V value;
    std::memcpy(static_cast<void*>(&value), Bytes<V>(i), sizeof(V));
    if (range_->written) Executor::Current().CheckWaited("reads what another kernel wrote", i.where);
    return value;
  }
  template <class V>
  void Write(Index i, const V& value) const {
    static_assert(!std::is_const_v<T>);
    Executor::Current().CheckWaited("writes", i.where);
    std::memcpy(Bytes<V>(i), static_cast<const void*>(&value), sizeof(V));
    range_->written = true;
  }
  template <class V>
  std::byte* Bytes(Index i) const {
    const uintptr_t at = address_ + static_cast<uintptr_t>(i.value * static_cast<int64_t>(sizeof(T)));
    if (at < range_->begin || at > range_->end || range_->end - at < sizeof(V)) {
      Executor::Current().Fail(
          "global access out of bounds: " + std::to_string(static_cast<int64_t>(at - range_->begin)) + " bytes into " +
              std::to_string(range_->end - range_->begin),
          i.where);
    }
    if (at % alignof(V) != 0) Executor::Current().Fail("misaligned access to global memory", i.where);
    return reinterpret_cast<std::byte*>(at);
  }

 private:
  uintptr_t address_;
  Range* range_;
};

}  // namespace quire::simt

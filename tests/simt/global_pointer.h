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
    return ReadAs<V>(i, Access::kRead);
  }
  template <class V>
  void Write(Index i, const V& value) const {
    WriteAs(i, value, Access::kWrite);
  }
  /// Replaces the element by change(element) in one step, and returns the old one.
  template <class Change>
  T Replace(Index i, Change change) const {
    const T old = ReadAs<T>(i, Access::kAtomic);
    WriteAs(i, static_cast<T>(change(old)), Access::kAtomic);
    return old;
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
  template <class V>
  V ReadAs(Index i, Access access) const {
    V value;
    const std::byte* from = Bytes<V>(i);
    std::memcpy(static_cast<void*>(&value), from, sizeof(V));
    if (!range_->written) return value;
    Executor& executor = Executor::Current();
    executor.CheckWaited("reads what another kernel wrote", i.where);
    executor.NoteGlobal(*range_, from, sizeof(V), access, i.where);
    return value;
  }
  template <class V>
  void WriteAs(Index i, const V& value, Access access) const {
    static_assert(!std::is_const_v<T>);
    Executor& executor = Executor::Current();
    executor.CheckWaited("writes", i.where);
    std::byte* to = Bytes<V>(i);
    range_->written = true;
    executor.NoteGlobal(*range_, to, sizeof(V), access, i.where);
    if (range_->remote) return executor.WriteLate(to, &value, sizeof(V));
    std::memcpy(to, static_cast<const void*>(&value), sizeof(V));
  }

  uintptr_t address_;
  Range* range_;
};

}  // namespace quire::simt

#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "simt/executor.h"

namespace quire::simt {

/// An index, and where in the kernel it was used.
struct Index {
  template <std::integral I>
  Index(I i, Where w = Where::current()) : value(static_cast<int64_t>(i)), where(w) {}  // NOLINT: implicit by design
  int64_t value;
  Where where;
};

/// N elements that move as one access.
template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Vec {
  T v[N];
};

/// An element of checked memory: reads and writes go through `Memory`. Only of use within the expression it came from.
template <class Memory, class T>
class Element {
 public:
  Element(const Memory& memory, Index index) : memory_(memory), index_(index) {}
  Element(const Element&) = delete;
  operator std::remove_const_t<T>() && { return memory_.template Read<std::remove_const_t<T>>(index_); }
  void operator=(const T& value) && { memory_.Write(index_, value); }
  void operator=(Element&& other) && { memory_.Write(index_, static_cast<T>(std::move(other))); }
  void operator+=(const T& value) && { memory_.Write(index_, memory_.template Read<T>(index_) + value); }

 private:
  const Memory& memory_;
  Index index_;
};

}  // namespace quire::simt

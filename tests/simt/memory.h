#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "simt/executor.h"

namespace quire::simt {

/// Holds an index and the source location of its use in the kernel.
struct Index {
  template <std::integral I>
  Index(I i, Where w = Where::current()) : value(static_cast<int64_t>(i)), where(w) {}  // NOLINT: implicit by design
  int64_t value;
  Where where;
};

/// Holds N elements that are read or written in one access.
template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Vec {
  T v[N];
};

/// Stands for one element of a memory. Every read and write of the element calls the memory's Read and Write, which
/// check the access. The object is valid only in the expression that made it.
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

#pragma once

#include "kernels/cpu/isa/amx/span_tiles.h"

namespace quire::kernels::QUIRE_ISA {

/// Prefetches the keys and values of the next span, one cache line per call. The caller spreads the calls over its work
/// on the current span, because a core can wait for only a few cache lines at a time.
class NextLines {
 public:
  NextLines(const Span<Half>& span, const ValueRows& values) : span_(span), values_(values) {}

  void BeginKeys(int64_t vector) {
    const int64_t of_block = vector * kLanes % span_.block_size;
    key_ = reinterpret_cast<const std::byte*>(span_.keys[vector] + of_block * (span_.dim - 1));
  }
  QUIRE_INLINE void FetchKey() {
    __builtin_prefetch(key_);
    key_ += kLine;
  }
  QUIRE_INLINE void FetchValue() {
    __builtin_prefetch(values_.at[slot_] + part_ * kLineNumbers);
    if (++part_ * kLineNumbers >= span_.dim) part_ = 0, ++slot_;
    if (slot_ >= span_.slots) slot_ = 0;
  }

 private:
  static constexpr int64_t kLine = 64, kLineNumbers = kLine / sizeof(Half);

  const Span<Half>& span_;
  const ValueRows& values_;
  const std::byte* key_ = nullptr;
  int64_t slot_ = 0, part_ = 0;
};

}  // namespace quire::kernels::QUIRE_ISA

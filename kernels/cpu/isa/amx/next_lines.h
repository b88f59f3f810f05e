#pragma once

#include "kernels/cpu/isa/amx/span_tiles.h"

namespace quire::kernels::QUIRE_ISA {

/// Prefetches the keys and values of a later span into the second-level cache, 16 cache lines per three calls. The
/// caller spreads the calls over its work on earlier spans, because a core can wait for only a few cache lines at a
/// time.
class NextLines {
 public:
  explicit NextLines(const Span<Half>& span)
      : keys_(span, [&](int64_t block) { return span.keys[block * (span.block_size / kLanes)]; }),
        values_(span, [&](int64_t block) { return span.values[block]; }) {}

  /// Prefetch a third of the next 16 cache lines. Successive calls must pass `third` = 0, 1, 2, 0, 1, 2, ...
  QUIRE_INLINE void FetchKeys(int third) { keys_.Fetch(third); }
  QUIRE_INLINE void FetchValues(int third) { values_.Fetch(third); }

 private:
  /// The cache lines of the blocks' keys or values, block by block. After the last block, the last block is prefetched
  /// again.
  class Lines {
   public:
    template <class Of>
    Lines(const Span<Half>& span, const Of& of)
        : bytes_(span.block_size * span.dim * static_cast<int64_t>(sizeof(Half))) {
      blocks_ = span.slots / span.block_size;
      for (int64_t b = 0; b < blocks_; ++b) from_[b] = reinterpret_cast<const std::byte*>(of(b));
    }

    QUIRE_INLINE void Fetch(int third) {
      constexpr int64_t kLines = kTileBytes / kLine;
      for (int64_t line = kLines * third / kTermProducts; line < kLines * (third + 1) / kTermProducts; ++line)
        __builtin_prefetch(from_[block_] + at_ + line * kLine, 0, kSecondLevel);
      if (third < kTermProducts - 1 || (at_ += kTileBytes) < bytes_) return;
      at_ = 0;
      if (block_ + 1 < blocks_) ++block_;
    }

   private:
    static constexpr int64_t kLine = 64;
    static constexpr int kSecondLevel = 2;
    int64_t bytes_, blocks_, block_ = 0, at_ = 0;
    const std::byte* from_[kMostBlocks];
  };

  Lines keys_, values_;
};

}  // namespace quire::kernels::QUIRE_ISA

#pragma once

#include "kernels/cpu/isa/panel.h"

namespace quire::kernels::QUIRE_ISA {

/// Prefetches the panels that follow a tile's panels into the second-level cache, while tiles compute with the current
/// panels. Each tile prefetches an equal part in even steps, so that memory is never idle during computation.
class NextPanels {
 public:
  /// `data`: the beginning of the next panels. `bytes`: how many bytes of each of these panels are prefetched. Each
  /// tile prefetches its part in `steps` steps of equally many cache lines.
  NextPanels(const Tile& tile, const std::byte* data, int64_t bytes, int64_t steps)
      : data_(data),
        end_(tile.panels_end ? 0 : bytes),
        step_(steps == 0 ? 0 : (bytes + kLine * tile.count * steps - 1) / (kLine * tile.count * steps) * kLine),
        at_(tile.index * steps * step_) {}

  /// Prefetches the part of the next step in each of `panels` panels, which are `stride` bytes apart.
  template <int panels>
  QUIRE_INLINE void Fetch(int64_t stride) {
    if (at_ >= end_) return;
    for (const int64_t end = at_ + step_; at_ < end; at_ += kLine) {
      for (int i = 0; i < panels; ++i) __builtin_prefetch(data_ + i * stride + at_, 0, 2);
    }
  }

 private:
  static constexpr int64_t kLine = 64;

  const std::byte* data_;
  int64_t end_, step_, at_;
};

}  // namespace quire::kernels::QUIRE_ISA

#pragma once

#include "kernels/cpu/isa/panel.h"

namespace quire::kernels::QUIRE_ISA {

/// Brings the panels behind those of a tile into the second-level cache while tiles go through these: each tile its
/// part of them, and evenly, so that memory is never idle while there is something to compute.
class NextPanels {
 public:
  /// `data`: what is wanted of the first of the panels behind, `bytes` in `steps` parts of as many lines each; the
  /// others of them are a stride apart.
  NextPanels(const Tile& tile, const std::byte* data, int64_t bytes, int64_t steps)
      : data_(data),
        end_(tile.panels_end ? 0 : bytes),
        step_(steps == 0 ? 0 : (bytes + kLine * tile.count * steps - 1) / (kLine * tile.count * steps) * kLine),
        at_(tile.index * steps * step_) {}

  /// The next part, of each of `panels` panels that are `stride` bytes apart.
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

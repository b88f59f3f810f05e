#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace quire {

/// Counts values in buckets, and sums them: the content of a Prometheus histogram, as plain numbers, so that the
/// engine's thread needs no metrics library. Belongs to one thread.
class Distribution {
 public:
  /// Begins without values. `bounds` must ascend and outlive this object. counts() has one entry more than `bounds`,
  /// for values above the last bound.
  explicit Distribution(std::span<const double> bounds) : bounds_(bounds), counts_(bounds.size() + 1) {}

  void Observe(double value) {
    ++counts_[static_cast<size_t>(std::ranges::lower_bound(bounds_, value) - bounds_.begin())];
    sum_ += value;
  }
  std::span<const double> bounds() const { return bounds_; }
  /// Returns the counts: entry i counts values in (bounds[i - 1], bounds[i]].
  const std::vector<int64_t>& counts() const { return counts_; }
  double sum() const { return sum_; }

 private:
  std::span<const double> bounds_;
  std::vector<int64_t> counts_;
  double sum_ = 0;
};

}  // namespace quire

#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace quire {

/// Counts of values between bounds and their sum: the content of a Prometheus histogram. Plain numbers, so that an
/// observing thread needs no metrics library. Belongs to one thread.
class Distribution {
 public:
  /// Begins with no values. `bounds` must ascend and outlive this object. counts() has one more entry, for values above
  /// the last bound.
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

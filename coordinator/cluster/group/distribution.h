#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace quire {

/// How often values fell between bounds, and their sum: what a histogram of Prometheus is made of. Plain numbers, so
/// that whoever observes on a thread of its own needs no metrics library. Belongs to one thread.
class Distribution {
 public:
  /// `bounds` ascend and outlive it; counts have one more entry, for what is above the last.
  explicit Distribution(std::span<const double> bounds) : bounds_(bounds), counts_(bounds.size() + 1) {}

  void Observe(double value) {
    ++counts_[static_cast<size_t>(std::ranges::lower_bound(bounds_, value) - bounds_.begin())];
    sum_ += value;
  }
  std::span<const double> bounds() const { return bounds_; }
  /// Entry i: values of at most bounds[i] that are above bounds[i - 1].
  const std::vector<int64_t>& counts() const { return counts_; }
  double sum() const { return sum_; }

 private:
  std::span<const double> bounds_;
  std::vector<int64_t> counts_;
  double sum_ = 0;
};

}  // namespace quire

#include "coordinator/metrics/series.h"

#include "comm/base/printable.h"

namespace quire {

Series::Series(prometheus::Registry& registry, const Labels& labels) : registry_(registry) {
  for (const auto& [label, value] : labels) labels_[label] = WithoutControls(value);
}

Series Series::With(const std::string& label, const std::string& value) const {
  Series more = *this;
  more.labels_[label] = WithoutControls(value);
  return more;
}

void CopiedHistogram::RaiseTo(const Distribution& distribution) {
  const std::vector<int64_t>& counts = distribution.counts();
  shown_.resize(counts.size());
  std::vector<double> increments;
  for (size_t i = 0; i < counts.size(); ++i) increments.push_back(static_cast<double>(counts[i] - shown_[i]));
  histogram_.ObserveMultiple(increments, distribution.sum() - shown_sum_);
  shown_ = counts;
  shown_sum_ = distribution.sum();
}

}  // namespace quire

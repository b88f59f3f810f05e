#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <map>
#include <span>
#include <string>

#include "coordinator/cluster/group/distribution.h"

namespace quire {

/// Makes series that bear the same labels. Families are made with their first series.
class Series {
 public:
  using Labels = std::map<std::string, std::string>;

  Series(prometheus::Registry& registry, Labels labels) : registry_(registry), labels_(std::move(labels)) {}

  /// The same with one label more.
  Series With(const std::string& label, const std::string& value) const {
    Series more = *this;
    more.labels_[label] = value;
    return more;
  }
  prometheus::Gauge& Gauge(const char* name, const char* help) const {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry_).Add(labels_);
  }
  prometheus::Counter& Counter(const char* name, const char* help) const {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry_).Add(labels_);
  }
  prometheus::Histogram& Histogram(const char* name, const char* help, std::span<const double> bounds) const {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry_).Add(
        labels_, prometheus::Histogram::BucketBoundaries(bounds.begin(), bounds.end()));
  }

 private:
  prometheus::Registry& registry_;
  Labels labels_;
};

/// For what is counted elsewhere: the counter shows `value` from now on, which is not below what it showed.
inline void RaiseTo(prometheus::Counter& counter, double value) { counter.Increment(value - counter.Value()); }

/// The same for a histogram. Holds what was shown so far.
class CopiedHistogram {
 public:
  explicit CopiedHistogram(prometheus::Histogram& histogram) : histogram_(histogram) {}
  void RaiseTo(const Distribution& distribution);

 private:
  prometheus::Histogram& histogram_;
  std::vector<int64_t> shown_;
  double shown_sum_ = 0;
};

}  // namespace quire

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

/// Creates metrics with a common set of labels. A metric family is created with its first series. Control characters in
/// the labels' values are escaped, so that a model's name cannot control the terminal of a reader.
class Series {
 public:
  using Labels = std::map<std::string, std::string>;

  Series(prometheus::Registry& registry, const Labels& labels);

  /// Returns a copy with one more label.
  Series With(const std::string& label, const std::string& value) const;
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

/// Sets a counter to a value that is counted elsewhere. The value must not be below the counter's current value.
inline void RaiseTo(prometheus::Counter& counter, double value) { counter.Increment(value - counter.Value()); }

/// Copies the counts of a Distribution into a Prometheus histogram. Remembers the counts of the last copy.
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

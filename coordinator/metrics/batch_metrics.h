#pragma once

#include <map>
#include <string>

#include "coordinator/metrics/batch_numbers.h"
#include "coordinator/metrics/series.h"

namespace quire {

/// Metrics of clients' files and batches.
class BatchMetrics {
 public:
  explicit BatchMetrics(prometheus::Registry& registry);

  void Update(const BatchNumbers& numbers);

 private:
  Series series_;
  std::map<std::string, prometheus::Gauge*> batches_;  // keyed by status
  prometheus::Gauge &files_, &bytes_, &max_bytes_, &running_;
  prometheus::Counter &completed_, &failed_;
};

}  // namespace quire

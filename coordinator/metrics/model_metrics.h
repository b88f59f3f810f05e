#pragma once

#include <cstdint>
#include <string>

#include "coordinator/metrics/series.h"

namespace quire {

/// The numbers of one model that do not come from its engines.
struct ModelNumbers {
  std::string state;  // the model's state, as in /v1/models
  int waiting = 0;    // requests that wait until the model is loaded
  int64_t loads = 0, load_failures = 0;
  double load_seconds = 0;  // duration of the model's latest start, other than the server's own start; 0: none
  int64_t bytes = 0;        // bytes that its workers take while it is loaded; 0: unknown
};

/// Metrics about when one model is loaded and unloaded.
class ModelMetrics {
 public:
  ModelMetrics(prometheus::Registry& registry, const std::string& model_name);

  void Update(const ModelNumbers& numbers);

 private:
  Series series_;
};

}  // namespace quire

#include "coordinator/metrics/model_metrics.h"

namespace quire {

ModelMetrics::ModelMetrics(prometheus::Registry& registry, const std::string& model_name)
    : series_(registry, {{"model_name", model_name}}) {}

void ModelMetrics::Update(const ModelNumbers& numbers) {
  for (const char* state :
       {"ready", "restarting", "lost", "loading", "unloading", "unloaded", "falling_asleep", "asleep"}) {
    series_.With("state", state)
        .Gauge("quire:model_state", "1 for the state that the model is in")
        .Set(numbers.state == state ? 1 : 0);
  }
  series_.Gauge("quire:model_waiting_requests", "Requests that wait until the model is loaded").Set(numbers.waiting);
  series_.Gauge("quire:model_load_seconds", "What the last start of the model's workers took")
      .Set(numbers.load_seconds);
  series_.Gauge("quire:model_bytes", "Memory of the model's workers while it is loaded, as planned")
      .Set(static_cast<double>(numbers.bytes));
  RaiseTo(series_.Counter("quire:model_loads_total", "Starts of the model's workers that succeeded"),
          static_cast<double>(numbers.loads));
  RaiseTo(series_.Counter("quire:model_load_failures_total", "Starts of the model's workers that failed, and losses"),
          static_cast<double>(numbers.load_failures));
}

}  // namespace quire

#pragma once

#include <memory>

namespace prometheus {
class Registry;
}

namespace quire {

/// Metrics of the coordinator's process (memory, processor time, open files, start time), under the names of
/// Prometheus' own client libraries.
class ProcessMetrics {
 public:
  explicit ProcessMetrics(prometheus::Registry& registry);
  ~ProcessMetrics();

  /// Reads the numbers from /proc. A number that cannot be read keeps its last value.
  void Update();

 private:
  struct All;
  std::unique_ptr<All> all_;
};

}  // namespace quire

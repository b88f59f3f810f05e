#pragma once

#include <memory>

namespace prometheus {
class Registry;
}

namespace quire {

/// The coordinator's process: memory, processor time, open files, start; under the names that Prometheus' own client
/// libraries use.
class ProcessMetrics {
 public:
  explicit ProcessMetrics(prometheus::Registry& registry);
  ~ProcessMetrics();

  /// Reads them from /proc; what cannot be read keeps its last value.
  void Update();

 private:
  struct All;
  std::unique_ptr<All> all_;
};

}  // namespace quire

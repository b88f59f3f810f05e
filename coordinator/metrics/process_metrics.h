#pragma once

#include <memory>

namespace prometheus {
class Registry;
}

namespace quire {

/// Metrics of the coordinator's process (memory, processor time, open files, start time), under the names of
/// Prometheus' own client libraries, and quire:build_info.
class ProcessMetrics {
 public:
  explicit ProcessMetrics(prometheus::Registry& registry);
  ~ProcessMetrics();

  /// Reads memory, processor time and the number of open files anew. The metric of a memory size that cannot be read
  /// does not change.
  void Update();

 private:
  struct All;
  std::unique_ptr<All> all_;
};

}  // namespace quire

#pragma once

#include <chrono>

namespace quire {

/// Bounds the server's final wait for its threads. SIGTERM, SIGINT or the end of the time limit ends the process
/// immediately with status 1, whatever the threads do. The kernel then ends the workers. At most one object may exist
/// at a time.
class BoundedEnd {
 public:
  explicit BoundedEnd(std::chrono::seconds limit);
  /// Stops bounding the wait. SIGTERM and SIGINT are ignored afterwards: the remaining work has its own time limits.
  ~BoundedEnd();
  BoundedEnd(const BoundedEnd&) = delete;
  BoundedEnd& operator=(const BoundedEnd&) = delete;
};

}  // namespace quire

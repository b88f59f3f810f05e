#pragma once

#include <chrono>

namespace quire {

/// While the server waits for its threads at the end: SIGTERM, SIGINT or the end of the time limit end the process at
/// once with status 1, whatever those threads do. The workers go with it: the kernel tells them. At most one at a time.
class BoundedEnd {
 public:
  explicit BoundedEnd(std::chrono::seconds limit);
  /// Signals are ignored from then on: what is left to do has bounds of its own.
  ~BoundedEnd();
  BoundedEnd(const BoundedEnd&) = delete;
  BoundedEnd& operator=(const BoundedEnd&) = delete;
};

}  // namespace quire

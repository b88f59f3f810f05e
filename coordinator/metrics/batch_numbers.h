#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace quire {

/// Numbers of files and batches of clients, as they are now.
struct BatchNumbers {
  std::vector<std::pair<std::string, int64_t>> batches;  // number of batches by status
  int64_t files = 0, bytes = 0, max_bytes = 0;           // stored files and bytes, and the allowed bytes
  int64_t running_requests = 0;
  int64_t completed_requests = 0, failed_requests = 0;  // requests since the server's start
};

}  // namespace quire

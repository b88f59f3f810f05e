#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "comm/base/json.h"
#include "coordinator/api/batches/records.h"

namespace quire {

/// Seconds that a client may ask a file to be kept for.
inline constexpr int64_t kLeastKeptSeconds = 3600, kMostKeptSeconds = 30 * 24 * 3600;

/// Bounds of a BatchStore. A client with a name may have half of what there is of bytes, files and batches.
struct StoreLimits {
  int64_t bytes = int64_t{4} << 30;         // of all files and results
  int64_t file_bytes = int64_t{200} << 20;  // of one file that a client sends
  int64_t files = 10'000;
  int64_t batches = 10'000;               // those that are over count
  int64_t unfinished = 100;               // batches of one client that are not over
  int64_t requests = 50'000;              // of one batch
  size_t line_bytes = (2 << 20) + 4096;   // of one request with what is around its body
  int64_t keep_seconds = 30 * 24 * 3600;  // files that say nothing else, and batches that are over
};

/// The terms under which a client created a batch.
struct BatchTerms {
  std::string endpoint, input_file_id, completion_window;
  int64_t window_seconds = 0;
  Json metadata;
  int64_t output_seconds = 0;  // how long its result files are kept; 0: StoreLimits::keep_seconds
};

/// Numbers of a BatchStore for those who watch.
struct StoreTotals {
  int64_t files = 0, bytes = 0;
  std::array<int64_t, kBatchStatuses> batches{};  // by BatchStatus
  int64_t completed = 0, failed = 0;              // requests whose result was recorded since the start
};

}  // namespace quire

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "comm/base/json.h"
#include "coordinator/api/batches/records.h"

namespace quire {

class FileDraft;

/// The least and the most seconds for which a client may ask the server to store a file.
inline constexpr int64_t kLeastKeptSeconds = 3600, kMostKeptSeconds = 30 * 24 * 3600;

/// Limits of a BatchStore. `bytes`, `files`, `batches` and `record_bytes` limit the totals of all clients; `unfinished`
/// limits each client.
struct StoreLimits {
  int64_t bytes = int64_t{4} << 30;         // most bytes of all files and results together
  int64_t file_bytes = int64_t{200} << 20;  // most bytes of one file that a client sends
  int64_t files = 10'000;
  int64_t batches = 10'000;               // most batches, including batches that have ended
  int64_t record_bytes = 64 << 20;        // most bytes of the batches' metadata and faults, which stay in memory
  int64_t unfinished = 100;               // unfinished batches of one client
  int64_t requests = 50'000;              // maximum for one batch
  size_t line_bytes = (2 << 20) + 4096;   // most bytes of one line: a body and the members around the body
  int64_t keep_seconds = 30 * 24 * 3600;  // lifetime, in seconds, of ended batches, and of files that set no lifetime
};

/// The terms under which a client created a batch.
struct BatchTerms {
  std::string endpoint, input_file_id, completion_window;
  int64_t window_seconds = 0;
  Json metadata;
  int64_t output_seconds = 0;  // lifetime of the result files, in seconds; 0: StoreLimits::keep_seconds
};

/// A line of results, without its line end: `begin`, then the text that was written to the disk, if any, then `end`.
struct ResultLine {
  std::string begin = {};
  std::shared_ptr<const FileDraft> spilled = {};
  std::string end = {};
};

/// Numbers of a BatchStore, for metrics and reports.
struct StoreTotals {
  int64_t files = 0, bytes = 0;
  std::array<int64_t, kBatchStatuses> batches{};  // number of batches, indexed by BatchStatus
  int64_t completed = 0, failed = 0;              // requests whose result was recorded since the start
};

}  // namespace quire

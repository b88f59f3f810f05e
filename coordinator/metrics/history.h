#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "comm/base/json_fwd.h"

namespace quire {

/// A histogram's bucket: how many values so far were at most `bound`.
struct CountedBucket {
  double bound = 0;
  uint64_t at_most = 0;
};

/// The value that a share (0 to 1) of the values between two readings of a histogram does not exceed, between the
/// bounds of its bucket; nullopt when no value came between them.
std::optional<double> QuantileBetween(const std::vector<CountedBucket>& before, const std::vector<CountedBucket>& now,
                                      double share);

/// Numbers of the server at one moment. Those in plural that only grow count since the start of the server, or of the
/// host.
struct HistoryReading {
  double time = 0;  // seconds since 1970
  int running = 0, waiting = 0;
  int64_t blocks = 0, used_blocks = 0, cached_blocks = 0;
  int64_t generated_tokens = 0;
  int64_t refused = 0, failed = 0;                      // answers of the data port
  double cores_seconds = 0;                             // processor time of the coordinator
  double resident_bytes = 0;                            // of the coordinator
  double host_busy_seconds = 0, host_seconds = 0;       // processor time of the host: what was used, and all
  double host_used_bytes = 0, host_bytes = 0;           // memory of the host
  std::vector<CountedBucket> first_token, inter_token;  // seconds
};

/// The last half hour of the server's numbers, for the dashboard. A reading tells what happened since the one before.
class History {
 public:
  static constexpr std::chrono::seconds kPeriod{5};
  static constexpr size_t kRows = 360;

  void Add(HistoryReading now);
  /// {period_seconds, columns: [name...], rows: [[number or null...]...]} of the rows after `since` (seconds since
  /// 1970), the oldest first.
  Json Report(double since) const;

 private:
  struct Row {
    HistoryReading now;  // without its buckets
    std::vector<std::optional<double>> derived;
  };
  std::optional<HistoryReading> last_;
  std::deque<Row> rows_;
};

}  // namespace quire

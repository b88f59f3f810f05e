#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "comm/base/json_fwd.h"

namespace quire {

/// One bucket of a histogram, with the number of all observed values that are at most `bound`.
struct CountedBucket {
  double bound = 0;
  uint64_t at_most = 0;
};

/// Returns the quantile `share` (0 to 1) of the values that a histogram got between two readings, interpolated within a
/// bucket; nullopt when it got no value.
std::optional<double> QuantileBetween(const std::vector<CountedBucket>& before, const std::vector<CountedBucket>& now,
                                      double share);

/// Numbers of the server at one moment. The tokens, the answers and the processor times are counters since the start of
/// the server, or of the host.
struct HistoryReading {
  double time = 0;  // seconds since 1970
  int running = 0, waiting = 0;
  int64_t blocks = 0, used_blocks = 0, cached_blocks = 0;
  int64_t generated_tokens = 0;
  int64_t refused = 0, failed = 0;                      // answers of the data port
  double cores_seconds = 0;                             // processor time of the coordinator
  double resident_bytes = 0;                            // resident memory of the coordinator
  double host_busy_seconds = 0, host_seconds = 0;       // processor time of the host: used, and in all
  double host_used_bytes = 0, host_bytes = 0;           // memory of the host
  std::vector<CountedBucket> first_token, inter_token;  // times in seconds
};

/// Keeps the server's numbers of the last half hour, for the dashboard. A row covers the time from one reading to the
/// next.
class History {
 public:
  static constexpr std::chrono::seconds kPeriod{5};
  static constexpr size_t kRows = 360;

  void Add(HistoryReading now);
  /// Returns {period_seconds, columns: [name...], rows: [[number or null...]...]} with the rows after `since` (seconds
  /// since 1970), the oldest first.
  Json Report(double since) const;

 private:
  struct Row {
    HistoryReading now;  // the reading at the row's end, without its buckets
    std::vector<std::optional<double>> derived;
  };
  std::optional<HistoryReading> last_;
  std::deque<Row> rows_;
};

}  // namespace quire

#pragma once

#include <chrono>
#include <ctime>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "coordinator/api/batches/batch_runner.h"
#include "coordinator/http/byte_budget.h"

namespace quire {

/// A batch that a BatchRunner works on.
struct BatchRunner::Active {
  std::string id, client, endpoint;
  int64_t expires_at = 0;
  Turn turn = Turn::kRun;
  ByteBudget::Lease memory;       // memory of the scan, then of `pending`; returned by Drop() on the I/O thread
  std::deque<LinePlace> pending;  // requests without a result that are not running
  std::vector<LineResponder*> responders;  // one for each running request, the oldest first
  std::map<int64_t, int> failures;         // failed tries of each request that is tried again, by its line
  int in_flight = 0;
  bool ready = false;     // the input file has been read
  bool stopping = false;  // no further request of the batch may run
  bool ending = false;    // End() is at work
  BatchStatus ends_as = BatchStatus::kCompleted;
  Clock::time_point rests_until{};  // no request begins before this time; set after a refusal or a failure of the disk
};

inline int64_t NowSeconds() { return static_cast<int64_t>(std::time(nullptr)); }

}  // namespace quire

#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <set>
#include <string>

#include "coordinator/api/batches/batch_runner.h"

namespace quire {

/// A batch that a BatchRunner works on.
struct BatchRunner::Active {
  std::string id, client, endpoint;
  int64_t expires_at = 0;
  std::deque<LinePlace> pending;        // requests that do not run and have no result
  std::set<LineResponder*> responders;  // of those that run
  std::map<int64_t, int> failures;      // by line, of requests that are tried again
  int in_flight = 0;
  bool ready = false;     // its input is read
  bool stopping = false;  // no request of it is to run any more
  bool ending = false;    // its last work is under way
  BatchStatus ends_as = BatchStatus::kCompleted;
  Clock::time_point rests_until{};  // for lack of room, or of a disk
};

}  // namespace quire

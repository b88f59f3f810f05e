#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace quire {

class ServedModel;

/// The numbers of a model in reports for operators.
struct ModelReport {
  int users = 0, waiting = 0;       // requests that run; requests that wait until the model is loaded
  int64_t loads = 0, failures = 0;  // starts of its workers that succeeded and failed; losses count as failures
  int64_t taken_bytes = 0;          // bytes that the workers take now, as planned
  double expires_in = -1;           // seconds until the model is unloaded for want of requests; -1: never
  double load_seconds = 0;          // duration of the latest start, other than the server's own start
  std::string problem;              // why the latest start failed; empty: that start did not fail
};

/// A ModelKeeper's record of one model's starts and ends.
struct ModelStarts {
  int64_t loads = 0, failures = 0;
  double began = 0, load_seconds = 0;  // seconds: when the last start began, and how long it took
  bool retiring = false;               // true: the workers are ended once no user holds them
  bool cancelled = false;              // true: the present start is to be ended
  bool lost = false;                   // true: the model has lost its workers for good
  std::string problem;
  std::vector<std::function<void()>> on_unloaded, on_asleep;
};

/// Functions that ModelKeeper calls.
struct ModelHooks {
  std::function<double()> wait_seconds;                   // returns the seconds that a request may wait for its model
  std::function<void(ServedModel& model)> on_loaded;      // a model was loaded or woken; before its requests enter
  std::function<void(const std::string& reason)> on_end;  // every model has lost its workers for good
};

/// The reason why a request does not get its model: an HTTP status, and a sentence for the client.
struct ModelRefusal {
  int status = 503;
  std::string reason;
};

}  // namespace quire

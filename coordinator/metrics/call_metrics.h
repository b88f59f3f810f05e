#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/metrics/history.h"

namespace prometheus {
class Registry;
}

namespace quire {

/// A finished call, as its client saw it. Times are seconds from the moment at which the server had the whole request;
/// nullopt if the event did not happen.
struct FinishedCall {
  std::string reason;  // stop, length, abort or error
  int prompt_tokens = 0, generated_tokens = 0;
  int longest_choice = 0;  // tokens of its longest choice
  int choices = 1, max_tokens = 0;
  std::optional<double> begun, first_token, last_token;  // begun: the first part was computed
  double end_to_end = 0;
};

/// Metrics of calls, on whichever replica they were computed. Names and bucket bounds are vLLM's; some bounds are
/// finer, because small models in a CPU's cache are faster. Only the I/O thread uses this class.
class CallMetrics {
 public:
  CallMetrics(prometheus::Registry& registry, const std::string& model_name);
  ~CallMetrics();

  void ObserveFirstToken(double seconds);
  void ObserveInterTokenLatency(double seconds);
  void Observe(const FinishedCall& call);
  /// Counts a call that was refused. `reason` must be one of kRejections (call_metrics.cc).
  void CountRejection(const std::string& reason);

  /// Return the histograms that the first two Observe...() functions fill, in seconds.
  std::vector<CountedBucket> FirstTokenBuckets() const;
  std::vector<CountedBucket> InterTokenBuckets() const;

 private:
  struct All;
  std::unique_ptr<All> all_;
};

}  // namespace quire

#pragma once

#include <memory>
#include <optional>
#include <string>

namespace prometheus {
class Registry;
}

namespace quire {

/// A finished call as its client saw it. Times are in seconds since the server had it whole; absent: it never came to
/// that.
struct FinishedCall {
  std::string reason;  // stop, length, abort, error
  int prompt_tokens = 0, generated_tokens = 0;
  int longest_choice = 0;  // tokens of its longest choice
  int choices = 1, max_tokens = 0;
  std::optional<double> begun, first_token, last_token;  // begun: something of it was computed
  double end_to_end = 0;
};

/// What calls were like, wherever they were computed; under vLLM's names with its bounds, finer where those are too
/// coarse for what a processor's cache holds. Of the I/O thread.
class CallMetrics {
 public:
  CallMetrics(prometheus::Registry& registry, const std::string& model_name);
  ~CallMetrics();

  void ObserveFirstToken(double seconds);
  void ObserveInterTokenLatency(double seconds);
  void Observe(const FinishedCall& call);
  /// `reason` is one of kRejections' (call_metrics.cc).
  void CountRejection(const std::string& reason);

 private:
  struct All;
  std::unique_ptr<All> all_;
};

}  // namespace quire

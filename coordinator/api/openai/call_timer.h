#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "coordinator/api/openai/running_call.h"
#include "coordinator/http/request_record.h"
#include "coordinator/metrics/metrics.h"

namespace quire {

/// Measures one call for the metrics and for the request's log record. Tokens are counted as they come; the destructor
/// counts the call. A call that ends with neither a finishing event nor an error counts as aborted.
class CallTimer {
 public:
  CallTimer(CallMetrics& metrics, const GenerateCall& call, const RunningCall& running, int prompt_tokens,
            RequestRecord& record);
  ~CallTimer();
  CallTimer(const CallTimer&) = delete;
  CallTimer& operator=(const CallTimer&) = delete;

  void OnEvent(const CallEvent& event);

 private:
  using Clock = std::chrono::steady_clock;
  struct Choice {
    std::optional<Clock::time_point> last_token;
    int tokens = 0;
  };

  CallMetrics& metrics_;
  RequestRecord& record_;
  FinishedCall finished_;
  Clock::time_point begin_ = Clock::now();
  std::vector<Choice> choices_;
};

}  // namespace quire

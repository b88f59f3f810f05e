#pragma once

#include "coordinator/core/decision_log.h"
#include "coordinator/core/request.h"

namespace quire {

/// Passes the scheduler's decisions to the decision log. A decision that holds a request at the head of the queue is
/// passed on only if the last such decision named another request or another reason.
class DecisionTeller {
 public:
  /// `log` may be null.
  void set_log(DecisionLog* log) { log_ = log; }
  /// Returns the last decision that held a request at the head of the queue. The decision names the request and what it
  /// lacked.
  const Decision& last_held() const { return last_held_; }

  void Tell(DecisionKind kind, const Request& request, int64_t a, int64_t b, RequestId cause = 0) {
    if (log_ == nullptr) return;
    const Decision decision{kind, request.id, cause, a, b};
    const bool held = kind == DecisionKind::kHeldForSlots || kind == DecisionKind::kHeldForBlocks ||
                      kind == DecisionKind::kHeldForPasses;
    if (held) {
      if (last_held_.kind == kind && last_held_.request == request.id) return;
      last_held_ = decision;
    }
    log_->OnDecision(decision);
  }

  template <class Archive>
  void Transfer(Archive& archive) {
    archive(last_held_);
  }

 private:
  DecisionLog* log_ = nullptr;
  Decision last_held_{};
};

}  // namespace quire

#pragma once

#include <span>
#include <string>
#include <vector>

#include "coordinator/core/block_manager.h"
#include "coordinator/core/decision_log.h"
#include "coordinator/core/request.h"

namespace quire {

/// How long a step took the slowest worker.
struct StepTimes {
  uint32_t compute_micros = 0;  // in all
  uint32_t swap_micros = 0;     // of those, moving blocks to and from the host
};

/// A choice that its text ended (a stop string), which only its sink could know.
struct StoppedChoice {
  RequestId request;
  int choice;
};

/// Hears everything that goes into an Engine, and what it decides: enough to run it again and get the same plans.
class EngineObserver : public DecisionLog {
 public:
  /// Before a plan is made: the moment for snapshots. A step may be outstanding.
  virtual void BeforePlan(double now) = 0;
  virtual void OnSubmit(const Request& request, bool accepted) = 0;
  virtual void OnCancel(RequestId id) = 0;
  virtual void OnPlan(double now, const StepPlan& plan) = 0;
  /// Nothing could be planned ahead. Somebody may have been admitted all the same.
  virtual void OnNoPlan(double now) = 0;
  /// `stopped`: the choices whose sinks said that their text now ends.
  virtual void OnCommit(const std::vector<SampledToken>& tokens, StepTimes times,
                        const std::vector<StoppedChoice>& stopped) = 0;
  virtual void OnExpire(double now) = 0;  // only when somebody's time was up
  virtual void OnEpoch(EpochId epoch, const PoolSizes& pools) = 0;
  virtual void OnSwapSpeed(double seconds_per_block) = 0;
  virtual void OnFlush() = 0;
  virtual void OnPin(const std::string& salt, const std::vector<TokenId>& tokens, double expires_seconds) = 0;
  virtual void OnUnpin(uint64_t pin) = 0;
  virtual void OnDepart(RequestId id, uint64_t ticket, int max_blocks) = 0;
  virtual void OnReserve(uint64_t ticket, int num_host_blocks) = 0;
  virtual void OnReleaseTicket(uint64_t ticket) = 0;
  /// Before it is taken in: the request as it left the other engine.
  virtual void OnAdopt(const Request& request, uint64_t ticket, std::span<const BlockId> host_blocks) = 0;
};

}  // namespace quire

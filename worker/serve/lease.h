#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "comm/wire/curve/curve_keys.h"
#include "comm/wire/step_plan.h"

namespace quire {

/// A heartbeat between this worker and the coordinator, on a thread of its own. The thread sends a heartbeat every 250
/// ms, whatever the computing thread does. It ends the process if no answer comes for 3 s, or 20 s at the start, plus
/// an allowance for busy machines (at most 10 s), because a worker without a coordinator must not hold memory.
class Lease {
 public:
  /// `keys`: the keys of an encrypted transport, which must outlive this object; null: no encryption.
  Lease(std::string ctrl_endpoint, EpochId epoch, Rank rank, const WorkerKeys* keys);
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  void SetBegun(StepId step) { begun_.store(step, std::memory_order_relaxed); }
  void SetAnswered(StepId step) { answered_.store(step, std::memory_order_relaxed); }

 private:
  void Run();
  void RunGuarded();

  std::string endpoint_;
  EpochId epoch_;
  Rank rank_;
  std::atomic<StepId> begun_{0}, answered_{0};
  const WorkerKeys* keys_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace quire

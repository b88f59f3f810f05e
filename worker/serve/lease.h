#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "comm/wire/curve_keys.h"
#include "comm/wire/step_plan.h"

namespace quire {

/// Keeps the coordinator informed that this process lives, and this process that the coordinator does: a thread of its
/// own that sends a beat every 250 ms, whatever the compute thread does, and ends the process when no beat came back
/// for 3 s, and for as long as busy machines can explain. A worker that nobody leads must not hold memory.
class Lease {
 public:
  /// keys: of an encrypted transport, or null; they outlive this object.
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

#pragma once

#include <cstddef>
#include <vector>

namespace quire {

/// The state of a model's workers. kUnloading: the workers are being ended and still hold memory. kFallingAsleep: the
/// workers give memory back. kAsleep: the workers hold the weights and take no requests; they wake without loading the
/// weights.
enum class LifePhase { kUnloaded, kLoading, kLoaded, kUnloading, kFallingAsleep, kAsleep };

/// True when the model's workers run, and are neither being started nor being ended.
constexpr bool HasWorkers(LifePhase phase) {
  return phase == LifePhase::kLoaded || phase == LifePhase::kFallingAsleep || phase == LifePhase::kAsleep;
}

/// True when a request that waits for the model may cause it to be loaded or woken.
constexpr bool CanCome(LifePhase phase) { return phase == LifePhase::kUnloaded || phase == LifePhase::kAsleep; }
/// True when the workers of a model in this phase may be ended once no request uses the model.
constexpr bool MayGo(LifePhase phase) { return phase == LifePhase::kLoaded || phase == LifePhase::kAsleep; }

/// The decisions of ModelLives, as indices of models.
struct LifeOrders {
  std::vector<size_t> load, unload, sleep, wake;
  std::vector<size_t> pause;  // models whose requests leave the workers, and go on when the model is loaded again
};

}  // namespace quire

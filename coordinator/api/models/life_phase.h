#pragma once

#include <cstddef>
#include <vector>

namespace quire {

/// Whether a model's workers run. kUnloading: the workers are being ended and still hold memory. kFallingAsleep: the
/// workers give memory back. kAsleep: the workers have their weights, take no requests, and can be woken at once.
enum class LifePhase { kUnloaded, kLoading, kLoaded, kUnloading, kFallingAsleep, kAsleep };

/// True when the model has workers that are neither started nor ended now.
constexpr bool HasWorkers(LifePhase phase) {
  return phase == LifePhase::kLoaded || phase == LifePhase::kFallingAsleep || phase == LifePhase::kAsleep;
}

/// True for a model that a wish may load or wake.
constexpr bool CanCome(LifePhase phase) { return phase == LifePhase::kUnloaded || phase == LifePhase::kAsleep; }
/// True for a model whose workers may be ended once no request uses it.
constexpr bool MayGo(LifePhase phase) { return phase == LifePhase::kLoaded || phase == LifePhase::kAsleep; }

/// The decisions of ModelLives, as indices of models.
struct LifeOrders {
  std::vector<size_t> load, unload, sleep, wake;
  std::vector<size_t> pause;  // their requests must leave the workers, and go on when the model is loaded again
};

}  // namespace quire

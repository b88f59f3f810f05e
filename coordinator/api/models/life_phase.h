#pragma once

namespace quire {

/// Whether a model's workers run. kUnloading: the workers are being ended and still hold memory. kFallingAsleep: the
/// workers give memory back. kAsleep: the workers have their weights, take no requests, and can be woken at once.
enum class LifePhase { kUnloaded, kLoading, kLoaded, kUnloading, kFallingAsleep, kAsleep };

/// True when the model has workers that are neither started nor ended now.
constexpr bool HasWorkers(LifePhase phase) {
  return phase == LifePhase::kLoaded || phase == LifePhase::kFallingAsleep || phase == LifePhase::kAsleep;
}

}  // namespace quire

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/api/models/life_phase.h"
#include "coordinator/api/models/model_clients.h"

namespace quire {

/// The record of one model in ModelLives.
struct LifeRecord {
  std::string name;
  int64_t bytes = 0;  // while it is loaded
  int64_t held = 0;   // now
  LifePhase phase = LifePhase::kUnloaded;
  int users = 0, lines = 0, failures = 0;  // users: requests on the model; lines: how many of them come from batches
  double last_used = 0, opened = 0, failed_at = 0;
  double closed_until = 0;  // time in seconds until which new requests are refused, so that another model can load
  bool leaves = false, goes_to_sleep = false;
  std::string turn_of;  // client whose waiting request caused the latest load
  ModelClients clients;

  /// True for a model whose workers may be ended now.
  bool IsFree() const { return MayGo(phase) && users == 0; }
};

/// Returns in words what the model does with its memory: "a has 2 requests", "b is loading".
std::string InWords(const LifeRecord& model);

/// Chooses which models to unload, so that `missing` bytes become free. `held`: the bytes of each model, in the order
/// in which models should be unloaded. Chooses models from the front of `held` until their bytes suffice. Then, from
/// the last chosen model to the first, drops each model without which the other chosen models still suffice. Returns
/// indices into `held`; none when all models together do not suffice.
std::vector<size_t> FewestToFree(const std::vector<int64_t>& held, int64_t missing);

}  // namespace quire

#pragma once

#include <cstdint>

#include "coordinator/api/requests/openai_request.h"

namespace quire {

/// The limits of a model's calls, known once its replicas are sized. Each limit is the smallest over all replicas, so
/// that every replica can serve the calls.
struct CallLimits {
  RequestLimits request;
  int64_t pool_tokens = 0;  // tokens that all KV blocks of a replica hold
};

/// The state of a model in reports. kLost: all its workers are lost for good.
enum class ModelState { kReady, kRestarting, kLost, kLoading, kUnloading, kUnloaded, kFallingAsleep, kAsleep };
const char* NameOf(ModelState state);

}  // namespace quire

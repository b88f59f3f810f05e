#pragma once

#include <functional>
#include <string>
#include <vector>

#include "coordinator/core/engine.h"

namespace quire {

/// A call on its way to the engine, and what else may become of it there. All of it runs on the engine's thread.
struct Arrival {
  std::function<void(Engine&)> submit;
  /// Ends the call without the engine: an HTTP status and the reason.
  std::function<void(int status, const std::string& reason)> refuse;
  /// Whether nobody waits for the answer any more.
  std::function<bool()> abandoned;
  /// Of the requests that it submits.
  std::vector<RequestId> requests;
};

}  // namespace quire

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "coordinator/core/engine/engine.h"

namespace quire {

/// An API call on its way to the engine. The engine's thread runs all of its functions.
struct Arrival {
  /// Submits the call's requests.
  std::function<void(Engine&)> submit;
  /// Ends the call without the engine, with an HTTP status and the reason.
  std::function<void(int status, const std::string& reason)> refuse;
  /// True when no client waits for the answer any more.
  std::function<bool()> abandoned;
  /// The requests that `submit` brings.
  std::vector<RequestId> requests;
};

}  // namespace quire

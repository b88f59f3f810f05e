#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/core/engine/engine.h"

namespace quire {

/// A prompt whose leading blocks may be found on disk.
struct ArrivalPrompt {
  std::string salt;
  int adapter = 0;
  std::vector<TokenId> tokens;
};

/// Returns the prompts of those requests that can use cached blocks.
inline std::vector<ArrivalPrompt> PromptsOf(const std::vector<std::shared_ptr<Request>>& requests) {
  std::vector<ArrivalPrompt> prompts;
  for (const auto& request : requests) {
    if (request->NumCacheable() > 0)
      prompts.push_back({request->cache_salt, request->adapter, request->sequences.front().tokens});
  }
  return prompts;
}

/// An API call on its way to the engine. All of its functions run on the engine's thread.
struct Arrival {
  /// Submits the call's requests.
  std::function<void(Engine&)> submit;
  /// Ends the call without the engine, with an HTTP status and the reason.
  std::function<void(int status, const std::string& reason)> refuse;
  /// Returns true when no client waits for the answer any more.
  std::function<bool()> abandoned;
  /// The requests that `submit` gives to the engine.
  std::vector<RequestId> requests;
  /// Returns the prompts of those requests that can use cached blocks. Null: no request can.
  std::function<std::vector<ArrivalPrompt>()> prompts = nullptr;
};

}  // namespace quire

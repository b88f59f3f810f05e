#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/core/engine/engine.h"

namespace quire {

/// A prompt whose beginning may be found in stored blocks.
struct ArrivalPrompt {
  std::string salt;
  int adapter = 0;
  std::vector<TokenId> tokens;
};

/// Returns the prompts of these requests for which cached blocks are of use.
inline std::vector<ArrivalPrompt> PromptsOf(const std::vector<std::shared_ptr<Request>>& requests) {
  std::vector<ArrivalPrompt> prompts;
  for (const auto& request : requests) {
    if (request->NumCacheable() > 0)
      prompts.push_back({request->cache_salt, request->adapter, request->sequences.front().tokens});
  }
  return prompts;
}

/// An API call on its way to the engine. The engine's thread runs all of its functions.
struct Arrival {
  /// Submits the call's requests.
  std::function<void(Engine&)> submit;
  /// Ends the call without the engine, with an HTTP status and the reason.
  std::function<void(int status, const std::string& reason)> refuse;
  /// Returns true when no client waits for the answer any more.
  std::function<bool()> abandoned;
  /// The requests that `submit` gives to the engine.
  std::vector<RequestId> requests;
  /// Returns the prompts of the requests that can use cached blocks. Null: none.
  std::function<std::vector<ArrivalPrompt>()> prompts = nullptr;
};

}  // namespace quire

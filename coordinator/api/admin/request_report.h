#pragma once

#include <string>
#include <vector>

#include "comm/base/json_fwd.h"
#include "coordinator/core/engine.h"

namespace quire {

/// Where a request stands.
enum class RequestState { kWaiting, kPreempted, kSwappedOut, kPrompt, kGenerating };
const char* RequestStateName(RequestState state);

struct RequestFilter {
  std::string state, client, name;  // empty: any
  bool any_client = true;           // `client` does not count
  size_t limit = 0;                 // requests that are listed
  bool details = false;             // their choices, too
};

/// How a replica stands; it is why nobody of it goes on.
struct ReplicaHold {
  bool paused = false, recovering = false;
};

struct ChoiceView {
  int choice = 0, tokens = 0, computed = 0;
  std::string ended;            // stop, length or abort; empty: it goes on
  std::vector<BlockId> blocks;  // its table, null entries included; with details only
};

struct RequestView {
  RequestId id = 0;
  int replica = 0;
  RequestState state{};
  std::string name, client, why_waiting;  // why: empty when it computes
  int priority = 0, prompt_tokens = 0, cached_tokens = 0, max_tokens = 0, preemptions = 0, blocks = 0, host_blocks = 0;
  double age_seconds = 0, waited_seconds = 0, max_seconds = 0;  // max: 0 for the server's limit
  std::vector<ChoiceView> choices;
};

struct RequestsView {
  int running = 0, waiting = 0;  // in all
  int matching = 0;              // of the filter, listed or not
  std::vector<RequestView> requests;
};

/// What runs, most senior first, then what waits, by client in the order of their turns. On the engine's thread; it
/// takes time for what is listed alone.
RequestsView TakeRequests(const Engine& engine, int replica, const ReplicaHold& hold, const RequestFilter& filter,
                          double now);

/// From any thread.
Json RequestJson(const RequestView& request, bool details);

}  // namespace quire

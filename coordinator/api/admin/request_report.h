#pragma once

#include <string>
#include <vector>

#include "comm/base/json_fwd.h"
#include "coordinator/core/engine/engine.h"

namespace quire {

/// The progress of a request: waiting, preempted, swapped out, computing its prompt, or generating.
enum class RequestState { kWaiting, kPreempted, kSwappedOut, kPrompt, kGenerating };
const char* RequestStateName(RequestState state);

struct RequestFilter {
  std::string state, client, name;  // an empty state or name matches every request
  bool any_client = true;           // `client` is ignored
  size_t limit = 0;                 // most listed requests
  bool details = false;             // true: also copy the sequences' block tables
};

/// The conditions of a replica under which none of its requests is computed.
struct ReplicaHold {
  bool paused = false, recovering = false;
};

struct ChoiceView {
  int choice = 0, tokens = 0, computed = 0;
  std::string ended;            // stop, length or abort; empty: not finished
  std::vector<BlockId> blocks;  // the block table with null entries; only with details
};

struct RequestView {
  RequestId id = 0;
  int replica = 0;
  RequestState state{};
  std::string name, client, why_waiting;  // why_waiting: empty while it computes
  int priority = 0, prompt_tokens = 0, cached_tokens = 0, max_tokens = 0, preemptions = 0, blocks = 0, host_blocks = 0;
  double age_seconds = 0, waited_seconds = 0, max_seconds = 0;  // max_seconds: 0 means the server's limit
  std::vector<ChoiceView> choices;
};

struct RequestsView {
  int running = 0, waiting = 0;  // all requests of the replica, whatever the filter
  int matching = 0;              // requests that match the filter, listed or not
  std::vector<RequestView> requests;
};

/// Lists the running requests in the order in which the scheduler serves them. Then lists each client's waiting
/// requests, in the order in which the queue serves the clients. Copies only the listed requests. `replica`: the
/// replica's number, for the report. `now`: EngineLoop::Now(), from which waiting times are computed. Call it on the
/// engine's thread.
RequestsView TakeRequests(const Engine& engine, int replica, const ReplicaHold& hold, const RequestFilter& filter,
                          double now);

/// Returns a request as JSON; with `details`, also each of its choices. Any thread may call it.
Json RequestJson(const RequestView& request, bool details);

}  // namespace quire

#include "coordinator/api/admin/request_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/base/json.h"
#include "coordinator/api/admin/block_ranges.h"

namespace quire {

namespace {

const char* FinishName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kAbort:
      break;
  }
  return "abort";
}

RequestState StateOf(const Request& request, bool runs) {
  if (runs) {
    const Sequence& first = request.sequences.front();
    return first.num_computed < first.num_prompt_tokens ? RequestState::kPrompt : RequestState::kGenerating;
  }
  if (request.swapped_out()) return RequestState::kSwappedOut;
  return request.num_preemptions > 0 ? RequestState::kPreempted : RequestState::kWaiting;
}

/// Collects the requests of one replica at one moment.
class Reporter {
 public:
  Reporter(const Engine& engine, int replica, const ReplicaHold& hold, const RequestFilter& filter, double now)
      : engine_(engine), replica_(replica), hold_(hold), filter_(filter), now_(now) {}

  RequestsView Take() {
    const Scheduler& scheduler = engine_.scheduler();
    view_.running = scheduler.num_running();
    view_.waiting = scheduler.num_waiting();
    for (const Request* request : scheduler.running()) Look(*request, true, 0);
    for (const auto& [name, client] : scheduler.queue().clients()) {
      int ahead = 0;
      for (const Request* request : client.preempted) Look(*request, false, ahead++);
      for (const Request* request : client.waiting) Look(*request, false, ahead++);
    }
    return std::move(view_);
  }

 private:
  void Look(const Request& request, bool runs, int ahead) {
    const RequestState state = StateOf(request, runs);
    if (!filter_.name.empty() && request.name != filter_.name) return;
    if (!filter_.any_client && request.client != filter_.client) return;
    if (!filter_.state.empty() && filter_.state != RequestStateName(state)) return;
    ++view_.matching;
    if (view_.requests.size() < filter_.limit) view_.requests.push_back(ViewOf(request, state, runs, ahead));
  }

  RequestView ViewOf(const Request& request, RequestState state, bool runs, int ahead) const {
    RequestView view;
    view.id = request.id;
    view.replica = replica_;
    view.state = state;
    view.name = request.name;
    view.client = request.client;
    view.why_waiting = runs ? WhyHeld(request) : WhyWaiting(request, ahead);
    view.priority = request.priority;
    view.prompt_tokens = request.num_prompt_tokens();
    view.cached_tokens = request.num_cached_tokens;
    view.max_tokens = request.limits.max_tokens;
    view.preemptions = request.num_preemptions;
    view.blocks = runs ? DistinctBlocks(request.sequences) : 0;
    view.host_blocks = request.num_swapped_blocks;
    view.age_seconds = std::max(0.0, now_ - request.arrival_seconds);  // a batch's request has an arrival in the future
    const bool began = request.first_scheduled_seconds >= 0;
    const double until = began ? request.first_scheduled_seconds : now_;
    view.waited_seconds = std::max(0.0, until - request.arrival_seconds);
    view.max_seconds = request.limits.max_seconds;
    for (const Sequence& sequence : request.sequences) {
      view.choices.push_back({sequence.choice, sequence.num_tokens(), sequence.num_computed,
                              sequence.finished ? FinishName(*sequence.finished) : "",
                              filter_.details ? sequence.blocks : std::vector<BlockId>()});
    }
    return view;
  }

  /// Returns the reason why a running request is not computed; empty when nothing holds the request.
  std::string WhyHeld(const Request& request) const {
    if (hold_.recovering) return "the workers are being started again";
    if (hold_.paused) return "the server is paused";
    const bool joined = request.sequences.front().slot.has_value();
    return request.told_to_wait && !joined ? "an older request is computing tokens that both begin with" : "";
  }

  std::string WhyWaiting(const Request& request, int ahead) const {
    if (hold_.recovering) return "the workers are being started again";
    if (hold_.paused) return "the server is paused";
    if (ahead == 1) return "1 request of its client is before it";
    if (ahead > 1) return fmt::format("{} requests of its client are before it", ahead);
    const Decision& held = engine_.scheduler().last_held();
    if (held.request == request.id && held.kind == DecisionKind::kHeldForSlots)
      return fmt::format("first in the queue; {} of at most {} sequences run", held.a, held.b);
    if (held.request == request.id && held.kind == DecisionKind::kHeldForPasses)
      return "first in the queue; texts that are as long are computed first";
    if (held.request == request.id)
      return fmt::format("first in the queue; needs {} blocks, {} were free beyond what running ones will take", held.a,
                         held.b);
    if (request.swapped_out())
      return fmt::format("preempted; its {} blocks come back from host memory when there is room",
                         request.num_swapped_blocks);
    if (request.num_preemptions > 0) return "preempted; computed again when there is room";
    return "first of its client; the turn of another client comes before";
  }

  const Engine& engine_;
  int replica_;
  ReplicaHold hold_;
  const RequestFilter& filter_;
  double now_;
  RequestsView view_;
};

Json ChoiceJson(const ChoiceView& choice, int prompt_tokens) {
  return {{"choice", choice.choice},
          {"generated_tokens", choice.tokens - prompt_tokens},
          {"computed_tokens", choice.computed},
          {"finish_reason", choice.ended.empty() ? Json() : Json(choice.ended)},
          {"blocks", BlockRangesJson(choice.blocks)}};
}

}  // namespace

const char* RequestStateName(RequestState state) {
  constexpr const char* kNames[] = {"waiting", "preempted", "swapped_out", "prompt", "generating"};
  return kNames[static_cast<size_t>(state)];
}

RequestsView TakeRequests(const Engine& engine, int replica, const ReplicaHold& hold, const RequestFilter& filter,
                          double now) {
  return Reporter(engine, replica, hold, filter, now).Take();
}

Json RequestJson(const RequestView& request, bool details) {
  int64_t generated = 0, computed = 0;
  for (const ChoiceView& choice : request.choices) {
    generated += choice.tokens - request.prompt_tokens;
    computed += choice.computed;
  }
  Json json = {{"request", request.id},
               {"id", request.name},
               {"client", request.client.empty() ? Json() : Json(request.client)},
               {"replica", request.replica},
               {"state", RequestStateName(request.state)},
               {"why_waiting", request.why_waiting.empty() ? Json() : Json(request.why_waiting)},
               {"priority", request.priority},
               {"choices", request.choices.size()},
               {"prompt_tokens", request.prompt_tokens},
               {"cached_tokens", request.cached_tokens},
               {"generated_tokens", generated},
               {"computed_tokens", computed},
               {"max_tokens", request.max_tokens},
               {"blocks", request.blocks},
               {"host_blocks", request.host_blocks},
               {"preemptions", request.preemptions},
               {"age_seconds", request.age_seconds},
               {"waited_seconds", request.waited_seconds},
               {"deadline_seconds", request.max_seconds > 0 ? Json(request.max_seconds) : Json()}};
  if (!details) return json;
  json["choices"] = Json::array();
  for (const ChoiceView& choice : request.choices) json["choices"].push_back(ChoiceJson(choice, request.prompt_tokens));
  return json;
}

}  // namespace quire

// Engine's functions that end requests with an error.
#include <fmt/format.h>

#include <cmath>

#include "coordinator/core/engine/engine.h"

namespace quire {

namespace {

constexpr const char* kNoNumbers =
    "the model computed no numbers for this request (infinity or NaN): its weights, or a type it is served in, do not "
    "hold them";

}  // namespace

void Engine::EndWithError(Request& request, RequestError error, const std::string& message) {
  LeaveScheduler(request);
  for (const Sequence& sequence : request.sequences) {
    if (!sequence.finished) Count(FinishReason::kAbort);
  }
  request.sink->OnError(error, message);
}

void Engine::AbortDrawn(SlotId slot, RequestError error, const std::string& message) {
  const std::optional<RequestId> id = scheduler_.RequestOf(slot);
  if (id) Abort(*id, error, message);  // without an id: the request has ended
}

void Engine::AbortBroken(const std::vector<SampledToken>& tokens, const std::vector<PromptScores>& scores) {
  for (const SampledToken& token : tokens) {
    if (token.overworked()) {
      AbortDrawn(
          token.slot, RequestError::kOverworked,
          "keeping to the request's grammar takes too much work: its texts can be read in many ways; write it so "
          "that there is one");
    } else if (token.dead_end()) {
      AbortDrawn(
          token.slot, RequestError::kDeadEnd,
          "the request allows nothing after what was generated, not even the end: its grammar, allowed_token_ids "
          "and bad_words must leave a way to finish every beginning");
    } else if (token.broken()) {
      AbortDrawn(token.slot, RequestError::kNoNumbers, kNoNumbers);
    }
  }
  for (const PromptScores& s : scores) {
    if (s.broken()) AbortDrawn(s.slot, RequestError::kNoNumbers, kNoNumbers);
  }
}

void Engine::Do(const command::Expire& c) {
  const double now = c.now;
  const bool due = (!deadlines_.empty() && deadlines_.top().seconds < now) || blocks_.pins().AnyDue(now);
  if (!due) return;
  Tell(c);
  blocks_.pins().Expire(now);
  for (; !deadlines_.empty() && deadlines_.top().seconds < now; deadlines_.pop()) {
    const auto it = requests_.find(deadlines_.top().request);
    if (it == requests_.end()) continue;
    Request& request = *it->second;
    // These sums must equal the sums in RestoreDeadlines to the last bit. A deadline that is taken from the queue but
    // found not due is never checked again.
    const double arrival = request.arrival_seconds;
    const bool waited = request.first_scheduled_seconds < 0 && arrival + options_.max_wait_seconds < now;
    if (!waited && arrival + MaxSeconds(request) >= now) continue;
    const auto milliseconds = [](double seconds) { return static_cast<int64_t>(std::llround(seconds * 1000)); };
    decisions_.OnDecision({.kind = waited ? DecisionKind::kWaitedTooLong : DecisionKind::kTimedOut,
                           .request = request.id,
                           .a = milliseconds(now - arrival),
                           .b = milliseconds(waited ? options_.max_wait_seconds : MaxSeconds(request))});
    const bool own = request.limits.max_seconds > 0 && MaxSeconds(request) < options_.max_request_seconds;
    const RequestError overdue = own ? RequestError::kDeadline : RequestError::kTimedOut;
    EndWithError(request, waited ? RequestError::kNoRoom : overdue,
                 waited ? fmt::format("no room within {} s in the queue; try again later", options_.max_wait_seconds)
                        : fmt::format("not done within {} s", MaxSeconds(request)));
    Erase(request.id);
  }
}

}  // namespace quire

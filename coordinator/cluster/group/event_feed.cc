#include "coordinator/cluster/group/event_feed.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace quire {

namespace {

/// Returns the kind of event that a decision causes; nullopt if it causes none.
std::optional<EventKind> KindOf(DecisionKind decision) {
  switch (decision) {
    case DecisionKind::kQueued:
      return EventKind::kRequestQueued;
    case DecisionKind::kHeldForSlots:
    case DecisionKind::kHeldForBlocks:
    case DecisionKind::kWaitsForPrefix:
    case DecisionKind::kStoodBack:
    case DecisionKind::kHeldForPasses:
      return EventKind::kRequestHeld;
    case DecisionKind::kPinsBroken:
      return EventKind::kPinsBroken;
    case DecisionKind::kAdmitted:
      return EventKind::kRequestStarted;
    case DecisionKind::kReadmitted:
    case DecisionKind::kSwappedIn:
    case DecisionKind::kTakenUp:
      return EventKind::kResumed;
    case DecisionKind::kPreemptedRecompute:
    case DecisionKind::kPreemptedSwap:
    case DecisionKind::kGivesUpPlaces:
    case DecisionKind::kGivesUpBlocks:
    case DecisionKind::kSetAside:
      return EventKind::kPreempted;
    case DecisionKind::kFinished:
    case DecisionKind::kCancelled:
    case DecisionKind::kTimedOut:
    case DecisionKind::kWaitedTooLong:
      return EventKind::kRequestEnded;
    case DecisionKind::kDeparted:
    case DecisionKind::kArrived:
      return EventKind::kMigrated;
    case DecisionKind::kDraftedByPrediction:
    case DecisionKind::kDraftedFromText:
    case DecisionKind::kDraftedFromAnswers:
    case DecisionKind::kDraftedByModel:
    case DecisionKind::kDraftedByLayer:
      return std::nullopt;  // totals of an ended request, which its usage and the metrics report
    case DecisionKind::kBroughtFromHost:
      return std::nullopt;  // the metrics and the request's own log report this decision
  }
  return std::nullopt;
}

/// True for kinds of events that requests cause. Their rate is limited.
bool HasRate(EventKind kind) { return kind <= EventKind::kPinsBroken; }

}  // namespace

const char* EventName(EventKind kind) {
  constexpr const char* kNames[] = {"request_queued", "request_started",  "request_ended",    "request_held",
                                    "preempted",      "resumed",          "migrated",         "pins_broken",
                                    "epoch",          "workers_lost",     "paused",           "serving",
                                    "draining",       "workers_replaced", "settings_changed", "model_state"};
  static_assert(std::size(kNames) == kNumEventKinds);
  return kNames[static_cast<size_t>(kind)];
}

bool EventFeed::MayPublish(EventKind kind) {
  if (!HasRate(kind)) return true;
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  Allowance& allowance = allowances_[static_cast<size_t>(kind)];
  const std::chrono::duration<double> passed = now - std::exchange(allowance.since, now);
  allowance.events = std::min(kBurst, allowance.events + passed.count() * kEventsPerSecond);
  if (allowance.events < 1) {
    ++left_out_;
    return false;
  }
  allowance.events -= 1;
  return true;
}

void EventFeed::Add(EventKind kind, ServerEvent event) {
  event.kind = kind;
  event.when = std::chrono::system_clock::now();
  const std::lock_guard lock(mutex_);
  event.number = ++newest_;
  if (events_.size() == kKept) events_.pop_front();
  events_.push_back(std::move(event));
}

EventFeed::Batch EventFeed::After(uint64_t last, size_t most) const {
  const std::lock_guard lock(mutex_);
  Batch batch;
  batch.left_out = left_out_;
  const uint64_t oldest = newest_ - events_.size() + 1;
  if (last + 1 < oldest) batch.lost = oldest - last - 1;
  const size_t begin = last < oldest ? 0 : static_cast<size_t>(std::min(last, newest_) - oldest + 1);
  const size_t end = begin + std::min(most, events_.size() - begin);
  batch.events.assign(events_.begin() + static_cast<ptrdiff_t>(begin), events_.begin() + static_cast<ptrdiff_t>(end));
  return batch;
}

std::vector<ServerEvent> EventFeed::OfRequest(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  std::vector<ServerEvent> found;
  std::ranges::copy_if(events_, std::back_inserter(found),
                       [&](const ServerEvent& event) { return event.name == name; });
  return found;
}

uint64_t EventFeed::newest() const {
  const std::lock_guard lock(mutex_);
  return newest_;
}

void EngineWatcher::OnDecision(const Decision& decision) {
  const std::optional<EventKind> kind = KindOf(decision.kind);
  if (!kind) return;
  feed_.Publish(*kind, [&] {
    const auto found = engine_.requests().find(decision.request);
    return ServerEvent{.replica = replica_,
                       .request = decision.request,
                       .name = found == engine_.requests().end() ? "" : found->second->name,
                       .text = Describe(decision)};
  });
}

}  // namespace quire

#include "coordinator/core/decision_log.h"

#include <fmt/format.h>

#include "coordinator/core/blocks/sequence.h"

namespace quire {

namespace {

/// Returns where the drafts of a decision kDraftedBy... or kDraftedFrom... come from.
const char* SourceOf(DecisionKind kind) {
  if (kind == DecisionKind::kDraftedByPrediction) return "from its prediction";
  if (kind == DecisionKind::kDraftedFromText) return "from its own text";
  if (kind == DecisionKind::kDraftedFromAnswers) return "from earlier answers";
  return kind == DecisionKind::kDraftedByModel ? "by the draft model" : "by the model's prediction layer";
}

const char* NameOf(FinishReason reason) {
  if (reason == FinishReason::kStop) return "a stop token or string, or the end of the beam search";
  return reason == FinishReason::kLength ? "max_tokens" : "abort";
}

double Seconds(int64_t milliseconds) { return static_cast<double>(milliseconds) / 1000; }

std::string Late(const char* what, const Decision& d) {
  return fmt::format("{} {:.3f} s after it came, {:.3f} s are allowed", what, Seconds(d.a), Seconds(d.b));
}

std::string What(const Decision& d) {
  switch (d.kind) {
    case DecisionKind::kQueued:
      return fmt::format("queued: {} prompt tokens, {} requests before it", d.a, d.b);
    case DecisionKind::kHeldForSlots:
      return fmt::format("first in the queue, but {} of at most {} sequences run", d.a, d.b);
    case DecisionKind::kHeldForBlocks:
      return fmt::format("first in the queue, but needs {} blocks; {} are free beyond what the running ones will take",
                         d.a, d.b);
    case DecisionKind::kAdmitted:
      return fmt::format("admitted: {} prompt tokens taken from the prefix cache, {} blocks were free", d.a, d.b);
    case DecisionKind::kReadmitted:
      return fmt::format("readmitted: {} tokens to compute but for those that are cached, {} blocks were free", d.a,
                         d.b);
    case DecisionKind::kSwappedIn:
      return fmt::format("swapped in: {} blocks back from the host, {} were free", d.a, d.b);
    case DecisionKind::kPreemptedRecompute:
      return fmt::format("preempted for request {}: gives up {} blocks, at most {} tokens are computed again", d.cause,
                         d.b, d.a);
    case DecisionKind::kPreemptedSwap:
      return fmt::format("preempted for request {}: {} blocks go to the host, {} are left there", d.cause, d.a, d.b);
    case DecisionKind::kWaitsForPrefix:
      return fmt::format("waits after {} tokens: a request before it is computing the ones they share", d.a);
    case DecisionKind::kPinsBroken:
      return "pinned prefixes were given up: it could not run beside them";
    case DecisionKind::kFinished:
      return fmt::format("choice {} finished: {}", d.a, NameOf(static_cast<FinishReason>(d.b)));
    case DecisionKind::kCancelled:
      return "cancelled, by its client or an operator";
    case DecisionKind::kTimedOut:
      return Late("timed out: not done", d);
    case DecisionKind::kWaitedTooLong:
      return Late("waited too long: no room", d);
    case DecisionKind::kDeparted:
      return fmt::format("leaves for another replica: takes {} blocks along and gives {} up", d.a, d.b);
    case DecisionKind::kArrived:
      return fmt::format("comes from another replica with {} blocks; {} requests wait", d.a, d.b);
    case DecisionKind::kGivesUpPlaces:
      return fmt::format("gives way to request {}: its client runs {} sequences, its share is {}", d.cause, d.a, d.b);
    case DecisionKind::kGivesUpBlocks:
      return fmt::format("gives way to request {}: its client has {} blocks, its share is {}", d.cause, d.a, d.b);
    case DecisionKind::kStoodBack:
      return fmt::format("lets others go first, who take its room: it has {} sequences, the share is {}", d.a, d.b);
    case DecisionKind::kHeldForPasses:
      return fmt::format("first in the queue, but other long texts are computed first: {} tokens of them", d.b);
    case DecisionKind::kBroughtFromHost:
      return fmt::format("{} cached blocks come back from the host, {} were free", d.a, d.b);
    case DecisionKind::kSetAside:
      return fmt::format(
          "is set aside: requests of others than batches are there, or its adapter is not; gives {} blocks up", d.a);
    case DecisionKind::kTakenUp:
      return fmt::format("is taken up again; {} requests wait", d.b);
    case DecisionKind::kDraftedByPrediction:
    case DecisionKind::kDraftedFromText:
    case DecisionKind::kDraftedFromAnswers:
    case DecisionKind::kDraftedByModel:
    case DecisionKind::kDraftedByLayer:
      return fmt::format("{} of {} tokens guessed {} were right", d.a, d.b, SourceOf(d.kind));
  }
  return "an unknown decision";
}

}  // namespace

std::string Describe(const Decision& decision) {
  return fmt::format("request {} {}", decision.request, What(decision));
}

}  // namespace quire

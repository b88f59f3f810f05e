#pragma once

#include <cstdint>
#include <string>

#include "comm/base/types.h"

namespace quire {

/// What the scheduler decided about a request, and why: the numbers that decided it are in a and b.
enum class DecisionKind : uint8_t {
  kQueued = 1,          // a: prompt tokens, b: requests before it
  kHeldForSlots,        // at the head of the queue, but: a sequences run, b is the limit
  kHeldForBlocks,       // at the head of the queue, but: needs a blocks beside what others still need, b are free
  kAdmitted,            // a: prompt tokens taken from the prefix cache, b: blocks free before
  kReadmitted,          // after preemption; a: tokens to compute again, b: blocks free before
  kSwappedIn,           // a: blocks moved back, b: blocks free before
  kPreemptedRecompute,  // for `cause`; a: tokens to compute again, b: blocks given up
  kPreemptedSwap,       // for `cause`; a: blocks moved to the host, b: host blocks left
  kWaitsForPrefix,      // an older request is computing tokens that this one shares; a: its computed tokens
  kPinsBroken,          // pinned prefixes were given up, because the request could not run otherwise
  kFinished,            // a: choice, b: FinishReason
  kCancelled,           // by the client
  kTimedOut,            // a: computed tokens
  kDeparted,            // to another replica; a: blocks that it takes along, b: blocks that it gives up
  kArrived,             // from another replica; a: blocks that it brings, b: requests that wait
  kGivesUpPlaces,       // for `cause`, of another client; a: sequences that its client runs, b: that client's share
  kGivesUpBlocks,       // likewise; a: blocks that its client's requests have and need next, b: that client's share
};

struct Decision {
  DecisionKind kind;
  RequestId request = 0;
  RequestId cause = 0;
  int64_t a = 0, b = 0;

  bool operator==(const Decision&) const = default;
};

/// One line for people: the request, the decision and its reason.
std::string Describe(const Decision& decision);

/// Where decisions are told; the journal listens.
class DecisionLog {
 public:
  virtual ~DecisionLog() = default;
  virtual void OnDecision(const Decision& decision) = 0;
};

/// Tells every decision to two listeners; either may be null.
class DecisionTee : public DecisionLog {
 public:
  DecisionLog* first = nullptr;
  DecisionLog* second = nullptr;

  void OnDecision(const Decision& decision) override {
    if (first != nullptr) first->OnDecision(decision);
    if (second != nullptr) second->OnDecision(decision);
  }
};

}  // namespace quire

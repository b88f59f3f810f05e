#pragma once

#include <cstdint>
#include <string>

#include "comm/base/types.h"

namespace quire {

/// A scheduling decision about a request. Decision::a and Decision::b are the numbers on which the decision depends.
enum class DecisionKind : uint8_t {
  kQueued = 1,          // a: prompt tokens, b: requests in the queue before this one
  kHeldForSlots,        // the request at the head of the queue waits for a slot; a: running sequences, b: their limit
  kHeldForBlocks,       // the head waits for blocks; a: needed blocks, b: free blocks that no running request will take
  kAdmitted,            // a: prompt tokens taken from the prefix cache, b: blocks free before
  kReadmitted,          // a preempted request runs again; a: tokens to recompute, b: blocks free before
  kSwappedIn,           // a: blocks moved back, b: blocks free before
  kPreemptedRecompute,  // preempted for `cause`; a: tokens to recompute, b: blocks given up
  kPreemptedSwap,       // preempted for `cause`; a: blocks moved to the host, b: host blocks left
  kWaitsForPrefix,      // an earlier request computes a shared prefix; a: tokens that the waiting request has computed
  kPinsBroken,          // pinned prefixes were given up, because the request could not run otherwise
  kFinished,            // a: choice, b: FinishReason
  kCancelled,           // the client or an operator ended the request, or its result was broken
  kTimedOut,            // a request took too long; a: milliseconds since its arrival, b: milliseconds allowed
  kDeparted,            // the request left for another replica; a: blocks taken along, b: blocks given up
  kArrived,             // the request came from another replica; a: blocks brought along, b: waiting requests
  kGivesUpPlaces,       // gives slots to another client's request `cause`; a: its client's running sequences, b: share
  kGivesUpBlocks,       // gives blocks to another client's request `cause`; a: blocks its client has or needs, b: share
  kWaitedTooLong,       // was not admitted in time; a: milliseconds since its arrival, b: milliseconds allowed
  kSetAside,            // waits for other requests or for its adapter; a: blocks given up, b: 0 if it is new, else 1
  kTakenUp,             // a request that was set aside returns to the queue; b: waiting requests
  kDraftedByPrediction,  // when a request ends; a: draft tokens that became part of its answer, b: all draft tokens
  kDraftedFromText,      // when a request ends; a and b as with kDraftedByPrediction, for drafts from its own tokens
  kDraftedFromAnswers,   // when a request ends; a and b as with kDraftedByPrediction, for drafts from earlier answers
  kDraftedByModel,       // when a request ends; a and b as with kDraftedByPrediction, for drafts of the draft model
  kDraftedByLayer,       // when a request ends; a and b as with kDraftedByPrediction, for drafts of a prediction layer
  kStoodBack,            // let other clients go first and fits no longer; a: its sequences, b: its client's share
  kHeldForPasses,        // waits until other prompts in slices are done; a: its tokens, b: tokens of those prompts
  kBroughtFromHost,      // its next blocks were cached on the host; a: blocks copied back, b: blocks free before
};

struct Decision {
  DecisionKind kind;
  RequestId request = 0;
  RequestId cause = 0;
  int64_t a = 0, b = 0;

  bool operator==(const Decision&) const = default;
};

/// Returns one line of text that names the request, the decision and its reason.
std::string Describe(const Decision& decision);

/// Receives decisions; the journal and EngineWatcher implement it.
class DecisionLog {
 public:
  virtual ~DecisionLog() = default;
  virtual void OnDecision(const Decision& decision) = 0;
};

/// Forwards every decision to two logs, either of which may be null.
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

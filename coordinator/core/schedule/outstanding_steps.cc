#include "coordinator/core/schedule/outstanding_steps.h"

#include <algorithm>
#include <utility>

#include "comm/base/error.h"

namespace quire {

namespace {

/// Returns the number of computed tokens. A slice counts as its part of the prompt's tokens (Slice::equivalent).
double TokensOf(const std::vector<StepMember>& members) {
  double tokens = 0;
  for (const StepMember& member : members) tokens += member.slice.count > 0 ? member.slice.equivalent() : member.count;
  return tokens;
}

}  // namespace

int OutstandingStep::num_tokens() const {
  int tokens = 0;
  for (const StepMember& member : members) tokens += member.count;
  return tokens;
}

int OutstandingStep::num_known() const {
  int tokens = 0;
  for (const StepMember& member : members) tokens += member.num_known();
  return tokens;
}

double OutstandingStep::cost() const {
  int rows = 0;
  for (const StepMember& member : members) rows += std::max(0, member.scores.count - 1);
  return TokensOf(members) + rows;
}

double OutstandingStep::mean_context() const {
  double contexts = 0;
  for (const StepMember& m : members) {
    contexts += m.slice.count > 0 ? 0.5 * (m.slice.tokens - 1) * m.slice.equivalent()
                                  : (m.start + 0.5 * (m.count - 1)) * m.count;
  }
  return members.empty() ? 0 : contexts / TokensOf(members);
}

bool OutstandingStep::HasDrafts() const {
  return std::ranges::any_of(members, [](const StepMember& member) { return !member.drafts.empty(); });
}

bool OutstandingStep::OrdersGuesses() const {
  return std::ranges::any_of(members, [](const StepMember& member) { return member.guess > 0; });
}

void OutstandingStep::Clear() {
  members.clear();
  computing.clear();
  num_moved_blocks = 0;
}

void OutstandingSteps::SetMost(int most) {
  QUIRE_CHECK(size_ == 0, "{} steps are outstanding", size_);
  steps_.resize(static_cast<size_t>(most));
}

void OutstandingSteps::Launch() {
  for (const StepMember& member : making().members) {
    member.sequence->num_in_flight += member.num_known();
    member.sequence->num_pending += member.draws;
  }
  ++size_;
}

void OutstandingSteps::Retire() {
  QUIRE_CHECK(size_ > 0, "no step is outstanding");
  for (const StepMember& member : oldest().members) {
    if (member.sequence == nullptr) continue;
    member.sequence->num_in_flight -= member.num_known();
    member.sequence->num_pending -= member.draws;
  }
  oldest().Clear();
  std::ranges::rotate(steps_, steps_.begin() + 1);
  --size_;
}

void OutstandingSteps::Forget(Sequence& sequence) {
  for (OutstandingStep& step : steps_) {
    for (StepMember& member : step.members) {
      if (member.sequence != &sequence) continue;
      member.sequence = nullptr;
      member.request = nullptr;
    }
  }
  sequence.num_in_flight = sequence.num_pending = 0;
}

void OutstandingSteps::Lose() {
  std::vector<Request*> computed;
  for (int i = 0; i < size_; ++i) {
    for (const StepMember& member : at(i).members) {
      if (member.request != nullptr && std::ranges::find(computed, member.request) == computed.end())
        computed.push_back(member.request);
    }
  }
  for (Request* request : computed) {
    ++request->num_lost_epochs;
    if (computed.size() == 1) ++request->num_lost_alone;
  }
  for (OutstandingStep& step : steps_) step.Clear();
  size_ = 0;
}

bool OutstandingSteps::Compute(const BlockHash& hash) const {
  return std::ranges::any_of(steps_, [&](const OutstandingStep& step) {
    return std::ranges::find(step.computing, hash) != step.computing.end();
  });
}

int OutstandingSteps::DraftsOf(const Sequence& sequence) const {
  int drafts = 0;
  for (int i = 0; i < size_; ++i) {
    for (const StepMember& member : at(i).members)
      drafts += member.sequence == &sequence ? static_cast<int>(member.drafts.size()) : 0;
  }
  return drafts;
}

OutstandingStep& OutstandingSteps::Restore() {
  QUIRE_CHECK(size_ < most(), "more than {} outstanding steps", most());
  return steps_[static_cast<size_t>(size_++)];
}

}  // namespace quire

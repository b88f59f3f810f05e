#pragma once

#include <vector>

#include "comm/wire/step_plan.h"
#include "coordinator/core/request.h"

namespace quire {

/// The running requests, and the slots that their sequences have at the workers. Slots that become free and branches of
/// beams are told to the workers with the next plan.
class RunningSet {
 public:
  /// `max_running`: slots, one for each running sequence.
  explicit RunningSet(int max_running);

  bool empty() const { return requests_.empty(); }
  int size() const { return static_cast<int>(requests_.size()); }
  /// The most senior request comes first.
  const std::vector<Request*>& requests() const { return requests_; }

  void Insert(Request& request);
  /// Returns false for a request that does not run.
  bool Remove(Request& request);

  /// Gives the sequence a free slot; there must be one.
  void TakeSlot(Sequence& sequence);
  /// Takes back the sequence's slot, if it has one.
  void LeaveWorkers(Sequence& sequence);
  /// The workers copy the parent's state to the child's slot and append the token.
  void Branch(const Sequence& child, const Sequence& parent, TokenId token);
  /// Moves the released slots and the branches into the plan.
  void TellWorkers(StepPlan& plan);
  /// The workers are lost, and new ones know nothing: there is nothing to tell them.
  void ForgetWorkers();

  /// Free slots, in no particular order.
  const std::vector<SlotId>& free_slots() const { return free_slots_; }

  template <class Archive>
  void Transfer(Archive& archive) {
    archive(free_slots_, released_, branches_);
  }

 private:
  std::vector<Request*> requests_;
  std::vector<SlotId> free_slots_;  // a stack: slots are taken from the back
  std::vector<SlotId> released_;    // to release with the next plan, as with branches_
  std::vector<quire::Branch> branches_;
};

}  // namespace quire

#pragma once

#include <vector>

#include "comm/wire/step_plan.h"
#include "coordinator/core/request.h"

namespace quire {

/// The running requests, and the slots (numbers) under which the workers know their sequences. The next plan tells the
/// workers which slots became free and which beams branched.
class RunningSet {
 public:
  /// `max_running`: number of slots; each running sequence takes one.
  explicit RunningSet(int max_running);

  bool empty() const { return requests_.empty(); }
  int size() const { return static_cast<int>(requests_.size()); }
  /// Returns the running requests, the most senior request first.
  const std::vector<Request*>& requests() const { return requests_; }

  void Insert(Request& request);
  /// Removes the request; returns false if it does not run.
  bool Remove(Request& request);

  /// Gives the sequence a free slot; there must be one.
  void TakeSlot(Sequence& sequence);
  /// Takes back the sequence's slot, if it has one.
  void LeaveWorkers(Sequence& sequence);
  /// Records for the next plan that the workers copy the parent's state to the child's slot and append the token to the
  /// copy.
  void Branch(const Sequence& child, const Sequence& parent, TokenId token);
  /// Moves the recorded slots and branches into the plan.
  void TellWorkers(StepPlan& plan);
  /// Forgets the recorded slots and branches. Called when the workers are lost, because new workers know no sequences.
  void ForgetWorkers();

  /// Returns the free slots, in no particular order.
  const std::vector<SlotId>& free_slots() const { return free_slots_; }

  template <class Archive>
  void Transfer(Archive& archive) {
    archive(free_slots_, released_, branches_);
  }

 private:
  std::vector<Request*> requests_;
  std::vector<SlotId> free_slots_;  // a stack: slots are taken from the back
  std::vector<SlotId> released_;    // slots that the next plan tells the workers to release
  std::vector<quire::Branch> branches_;
};

}  // namespace quire

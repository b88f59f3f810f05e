#include "coordinator/core/schedule/running_set.h"

#include <algorithm>

#include "comm/base/error.h"

namespace quire {

RunningSet::RunningSet(int max_running) {
  for (int slot = max_running - 1; slot >= 0; --slot) free_slots_.push_back(static_cast<SlotId>(slot));
}

void RunningSet::Insert(Request& request) {
  requests_.insert(std::ranges::upper_bound(requests_, &request, [](auto* a, auto* b) { return Senior(*a, *b); }),
                   &request);
}

bool RunningSet::Remove(Request& request) { return std::erase(requests_, &request) > 0; }

void RunningSet::TakeSlot(Sequence& sequence) {
  QUIRE_CHECK(!free_slots_.empty(), "no free slot");
  sequence.slot = free_slots_.back();
  free_slots_.pop_back();
  sequence.told_first_block = sequence.first_block;
}

void RunningSet::LeaveWorkers(Sequence& sequence) {
  sequence.told_first_block = 0;
  if (!sequence.slot) return;
  std::erase_if(branches_, [&](const quire::Branch& branch) { return branch.slot == *sequence.slot; });
  released_.push_back(*sequence.slot);
  free_slots_.push_back(*sequence.slot);
  sequence.slot.reset();
}

void RunningSet::Branch(const Sequence& child, const Sequence& parent, TokenId token) {
  branches_.push_back({*child.slot, *parent.slot, token});
}

void RunningSet::TellWorkers(StepPlan& plan) {
  plan.released.swap(released_);
  plan.branches.swap(branches_);
}

void RunningSet::ForgetWorkers() {
  released_.clear();
  branches_.clear();
}

}  // namespace quire

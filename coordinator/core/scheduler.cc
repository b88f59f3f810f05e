#include "coordinator/core/scheduler.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "comm/error.h"

namespace quire {

Scheduler::Scheduler(SchedulerLimits limits, BlockManager& blocks) : limits_(limits), blocks_(blocks) {
  QUIRE_CHECK(limits.max_step_tokens >= limits.max_running && limits.max_running >= 1, "{} tokens for {} sequences",
              limits.max_step_tokens, limits.max_running);
  for (int slot = limits.max_running - 1; slot >= 0; --slot) free_slots_.push_back(static_cast<SlotId>(slot));
}

void Scheduler::Add(Request& request) { waiting_.push_back(&request); }

bool Scheduler::CanEverRun(int num_prompt_tokens, int max_tokens, int n) const {
  // The last token drawn is never computed.
  const int64_t longest = int64_t{num_prompt_tokens} + max_tokens - 1;
  return n <= limits_.max_running && int64_t{n} * blocks_.BlocksFor(longest) <= blocks_.num_usable();
}

StepPlan Scheduler::Schedule() {
  QUIRE_CHECK(in_flight_.empty(), "step not committed");
  StepPlan plan;
  int budget = limits_.max_step_tokens;
  const int64_t preemptions_before = num_preemptions_;
  ScheduleRunning(plan, budget);
  if (num_preemptions_ == preemptions_before) AdmitWaiting(plan, budget);
  OrderBatch(plan);
  if (!plan.empty()) plan.released = std::exchange(released_, {});
  return plan;
}

void Scheduler::ScheduleRunning(StepPlan& plan, int& budget) {
  for (size_t i = 0; i < running_.size() && budget > 0; ++i) {
    Request& request = *running_[i];
    const std::vector<Work> work = WorkOf(request, budget);
    while (BlocksFor(work) > blocks_.num_free()) {
      Request& newest = *running_.back();
      QUIRE_CHECK(running_.size() > 1, "request {} does not fit the pool alone", request.id);
      Preempt(newest);
      if (&newest == &request) return;
    }
    Emit(request, work, plan, budget);
  }
}

void Scheduler::AdmitWaiting(StepPlan& plan, int& budget) {
  while (!waiting_.empty() && budget > 0 && HasRoomFor(*waiting_.front())) {
    Request& request = *waiting_.front();
    waiting_.pop_front();
    running_.push_back(&request);
    Emit(request, WorkOf(request, budget), plan, budget);
  }
}

int Scheduler::RunningSequences() const {
  int count = 0;
  for (const Request* request : running_) count += static_cast<int>(request->sequences.size());
  return count;
}

bool Scheduler::HasRoomFor(Request& request) const {
  if (RunningSequences() + static_cast<int>(request.sequences.size()) > limits_.max_running) return false;
  if (running_.empty()) return true;
  // Look ahead: everything known must fit beside what the running requests still have to compute.
  int needed = 0;
  for (const Sequence& sequence : request.sequences) {
    if (sequence.finished) continue;
    const int whole = blocks_.BlocksFor(sequence.num_tokens());
    const int shared = needed == 0 ? 0 : (request.num_prompt_tokens() - 1) / blocks_.block_size();
    needed += whole - shared;
  }
  return blocks_.num_free() - OutstandingBlocks() - needed >= blocks_.watermark_blocks();
}

int Scheduler::OutstandingBlocks() const {
  int blocks = 0;
  for (const Request* request : running_) {
    for (const Sequence& sequence : request->sequences) {
      if (sequence.finished || (!request->forked && sequence.choice != 0 && request->sequences.size() > 1)) continue;
      blocks += std::max(0, blocks_.BlocksFor(sequence.num_tokens()) - static_cast<int>(sequence.blocks.size()));
    }
  }
  return blocks;
}

std::vector<Scheduler::Work> Scheduler::WorkOf(Request& request, int budget) {
  std::vector<Work> work;
  if (!request.forked) {
    // The first live sequence computes the prompt but for its last token; then all share it and each computes the rest.
    const int shared = request.sequences.size() > 1 ? request.num_prompt_tokens() - 1 : 0;
    const auto leader = std::find_if(request.sequences.begin(), request.sequences.end(),
                                     [](const Sequence& s) { return !s.finished.has_value(); });
    if (leader->num_computed < shared) {
      return {{&*leader, std::min(budget, shared - leader->num_computed)}};
    }
    for (auto child = std::next(leader); child != request.sequences.end(); ++child) {
      if (!child->finished) blocks_.Fork(*leader, *child);
    }
    request.forked = true;
  }
  for (Sequence& sequence : request.sequences) {
    const int count = std::min(budget, sequence.num_tokens() - sequence.num_computed);
    if (sequence.finished || count <= 0) continue;
    work.push_back({&sequence, count});
    budget -= count;
  }
  return work;
}

int Scheduler::BlocksFor(const std::vector<Work>& work) const {
  std::vector<GrowTarget> targets;
  for (const Work& w : work) targets.push_back({w.sequence, w.sequence->num_computed + w.count});
  return blocks_.BlocksToGrow(targets);
}

void Scheduler::AddToWorkers(const Request& request, Sequence& sequence, StepPlan& plan) {
  QUIRE_CHECK(!free_slots_.empty(), "no free slot");
  sequence.slot = free_slots_.back();
  free_slots_.pop_back();
  AddedSequence added{*sequence.slot,        sequence.num_prompt_tokens,
                      sequence.num_computed, sequence.tokens,
                      sequence.blocks,       request.sampling};
  added.sampling.choice = static_cast<uint32_t>(sequence.choice);
  plan.added.push_back(std::move(added));
}

void Scheduler::Emit(Request& request, const std::vector<Work>& work, StepPlan& plan, int& budget) {
  for (const auto& [sequence, count] : work) {
    const int start = sequence->num_computed;
    TableGrowth growth = blocks_.Grow(*sequence, start + count);
    plan.copies.insert(plan.copies.end(), growth.copies.begin(), growth.copies.end());
    if (!sequence->slot) {
      AddToWorkers(request, *sequence, plan);
    } else if (growth.changed) {
      plan.tables.push_back({*sequence->slot,
                             static_cast<uint32_t>(growth.first_index),
                             {sequence->blocks.begin() + growth.first_index, sequence->blocks.end()}});
    }
    const bool draws = start + count == sequence->num_tokens();
    in_flight_.push_back({&request, sequence, count, draws});
    plan.position_sum += static_cast<uint64_t>(start);
    budget -= count;
  }
}

void Scheduler::OrderBatch(StepPlan& plan) {
  const auto is_decode = [](const InFlight& f) { return f.draws && f.count == 1; };
  const auto chunks = std::stable_partition(in_flight_.begin(), in_flight_.end(), is_decode);
  std::sort(in_flight_.begin(), chunks,
            [](const InFlight& a, const InFlight& b) { return *a.sequence->slot < *b.sequence->slot; });
  for (auto it = in_flight_.begin(); it != chunks; ++it) plan.decodes.push_back(*it->sequence->slot);
  for (auto it = chunks; it != in_flight_.end(); ++it) {
    plan.chunks.push_back({*it->sequence->slot, it->sequence->num_computed, it->count});
  }
}

bool Scheduler::Fits(const std::vector<SampledToken>& tokens) const {
  size_t next = 0;
  for (const InFlight& f : in_flight_) {
    if (f.draws && (next == tokens.size() || tokens[next++].slot != *f.sequence->slot)) return false;
  }
  return next == tokens.size();
}

std::vector<Scheduler::Drawn> Scheduler::Commit(const std::vector<SampledToken>& tokens) {
  std::vector<Drawn> drawn;
  size_t next = 0;
  for (const InFlight& f : in_flight_) {
    f.sequence->num_computed += f.count;
    if (!f.draws) continue;
    QUIRE_CHECK(next < tokens.size() && tokens[next].slot == f.sequence->slot, "result {} of {} is for another slot",
                next, tokens.size());
    f.sequence->tokens.push_back(tokens[next].token);
    drawn.push_back({f.request, f.sequence, &tokens[next++]});
  }
  QUIRE_CHECK(next == tokens.size(), "{} tokens for {} draws", tokens.size(), next);
  in_flight_.clear();
  return drawn;
}

void Scheduler::Detach(Sequence& sequence) {
  blocks_.Free(sequence);
  if (!sequence.slot) return;
  released_.push_back(*sequence.slot);
  free_slots_.push_back(*sequence.slot);
  sequence.slot.reset();
}

void Scheduler::Finish(Request& request, Sequence& sequence, FinishReason reason) {
  QUIRE_CHECK(!sequence.finished, "sequence {} ends twice", sequence.id);
  sequence.finished = reason;
  Detach(sequence);
  if (request.finished()) std::erase(running_, &request);
}

void Scheduler::Preempt(Request& request) {
  QUIRE_CHECK(running_.back() == &request, "request {} is not the newest", request.id);
  for (auto it = request.sequences.rbegin(); it != request.sequences.rend(); ++it) Detach(*it);
  request.forked = false;
  ++request.num_preemptions;
  ++num_preemptions_;
  running_.pop_back();
  waiting_.push_front(&request);
}

void Scheduler::Drop(Request& request) {
  QUIRE_CHECK(in_flight_.empty(), "step not committed");
  for (Sequence& sequence : request.sequences) Detach(sequence);
  std::erase(running_, &request);
  std::erase(waiting_, &request);
}

void Scheduler::Reset() {
  in_flight_.clear();
  while (!running_.empty()) Preempt(*running_.back());
  released_.clear();
}

void Scheduler::CheckIntegrity() const {
  blocks_.pool().CheckIntegrity();
  std::map<BlockId, int> references;
  std::set<SlotId> slots(free_slots_.begin(), free_slots_.end());
  for (const Request* request : running_) {
    for (const Sequence& sequence : request->sequences) {
      const auto blocks = static_cast<int>(sequence.blocks.size());
      QUIRE_CHECK(!sequence.finished || blocks == 0, "finished sequence {} holds blocks", sequence.id);
      QUIRE_CHECK(blocks >= blocks_.BlocksFor(sequence.num_computed), "sequence {}: {} blocks for {} computed tokens",
                  sequence.id, blocks, sequence.num_computed);
      QUIRE_CHECK(blocks <= blocks_.BlocksFor(sequence.num_tokens()), "sequence {}: {} blocks for {} tokens",
                  sequence.id, blocks, sequence.num_tokens());
      std::set<BlockId> distinct(sequence.blocks.begin(), sequence.blocks.end());
      QUIRE_CHECK(distinct.size() == sequence.blocks.size(), "sequence {} holds a block twice", sequence.id);
      for (const BlockId block : sequence.blocks) ++references[block];
      if (sequence.slot) QUIRE_CHECK(slots.insert(*sequence.slot).second, "slot {} has two owners", *sequence.slot);
    }
  }
  for (const Request* request : waiting_) {
    for (const Sequence& sequence : request->sequences) {
      QUIRE_CHECK(sequence.blocks.empty() && !sequence.slot, "waiting sequence {} holds something", sequence.id);
    }
  }
  int held = 0;
  for (const auto& [block, count] : references) {
    QUIRE_CHECK(blocks_.pool().ref_count(block) == count, "block {}: {} references, {} owners", block,
                blocks_.pool().ref_count(block), count);
    ++held;
  }
  QUIRE_CHECK(held == blocks_.pool().num_held(), "{} blocks held, {} in tables", blocks_.pool().num_held(), held);
  QUIRE_CHECK(static_cast<int>(slots.size()) == limits_.max_running, "{} of {} slots accounted for", slots.size(),
              limits_.max_running);
}

}  // namespace quire

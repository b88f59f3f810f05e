// Admission: which waiting requests start to run, and whether there is room for them.
#include <algorithm>

#include "comm/base/error.h"
#include "coordinator/core/schedule/scheduler.h"

namespace quire {

void Scheduler::Add(Request& request) {
  queue_.Add(request);
  for (Sequence& sequence : request.sequences) {
    sequence.contents.adapter = request.adapter;
    sequence.contents.root = blocks_.prefixes().Root(request.cache_salt, sequence.contents.adapter);
    sequence.contents.Restart();
  }
  Tell(DecisionKind::kQueued, request, request.num_prompt_tokens(), queue_.size() - 1);
}

bool Scheduler::MayJoin(const Request& request, const Crowd& crowd) {
  if (request.swapped_out() && ahead() && steps_.making().members.empty()) return false;
  return running_.empty() || (!IsSuspect(request) && !crowd.suspect);
}

Crowd Scheduler::CountCrowd() const {
  Crowd crowd;
  for (const Request* request : running_) CountIn(*request, crowd);
  return crowd;
}

void Scheduler::CountIn(const Request& request, Crowd& crowd) const {
  crowd.sequences += static_cast<int>(request.sequences.size());
  crowd.blocks += OutstandingBlocks(request);
  crowd.suspect = crowd.suspect || IsSuspect(request);
}

void Scheduler::CountOut(const Request& request, Crowd& crowd) const {
  crowd.sequences -= static_cast<int>(request.sequences.size());
  crowd.blocks -= OutstandingBlocks(request);
}

/// Admits requests into the free room, one client after another. A client without room does not hold up other clients,
/// except as IsHeldUp says.
void Scheduler::AdmitWaiting(StepDraft& draft) {
  if (queue_.empty() || draft.budget <= 0) return;
  Crowd crowd = CountCrowd();
  queue_.BeginTurns();
  for (Request* request : draft.returning) {
    const bool lost_its_turn = request->account->use.gave_way;
    if (draft.budget > 0 && !lost_its_turn && MayJoin(*request, crowd) && HasRoomFor(*request, crowd) &&
        FitsStep(*request, draft))
      Begin(*request, crowd, draft);
  }
  bool others_held = false;
  while (ClientAccount* client = draft.budget > 0 ? queue_.Next() : nullptr) {
    Request& request = client->head();
    if (!MayJoin(request, crowd)) return;
    client->use.passed_over = IsAtLimit(*client) || IsHeldUp(*client, others_held);
    if (client->use.passed_over || StandsBack(*client)) continue;
    if (!HasRoomFor(request, crowd)) {
      client->use.passed_over = others_held = true;
      continue;
    }
    if (!FitsStep(request, draft)) return;
    Begin(request, crowd, draft);
  }
}

/// Running requests have their work in this step already, so none may be preempted here. HasRoomFor ensures that none
/// must. If its estimate was wrong, the request computes its first tokens with the next step.
void Scheduler::Begin(Request& request, Crowd& crowd, StepDraft& draft) {
  const std::span<const GrowTarget> work = Admit(request, draft);
  if (running_.size() == 1) MakeRoomFor(request, work, draft.order);
  if (!work.empty() && blocks_.BlocksToGrow(work) <= blocks_.num_free()) Emit(request, work, draft);
  CountIn(request, crowd);
}

/// Moves the request from the queue to the running set. Returns its first work, as FindWork does.
std::span<const GrowTarget> Scheduler::Admit(Request& request, StepDraft& draft) {
  queue_.Remove(request);
  running_.insert(std::ranges::upper_bound(running_, &request, [](auto* a, auto* b) { return Senior(*a, *b); }),
                  &request);
  request.admitted_step = num_steps_;
  auto& reserve = request.account->reserve;
  if (reserve.until_step > num_steps_) reserve.until_step = num_steps_ + kReservedSteps;
  for (Sequence& sequence : request.sequences) sequence.sits_out = false;
  const int free = blocks_.num_free();
  if (request.num_preemptions > 0) Readmit(request);
  const int decodes = std::min(request.NumDecodes(), draft.budget);
  const std::span<const GrowTarget> work = FindWork(request, {decodes, draft.budget - decodes}, draft);
  if (request.num_preemptions == 0) {
    WaitingQueue::ChargePrompt(request, request.num_prompt_tokens());
    Tell(DecisionKind::kAdmitted, request, request.num_cached_tokens, free);
  }
  use_counted_ = false;
  return work;
}

/// Swaps a preempted request back in, or reports how many tokens it must compute again.
void Scheduler::Readmit(Request& request) {
  if (!request.swapped_out()) {
    int tokens = 0;
    for (const Sequence& sequence : request.sequences) tokens += sequence.finished ? 0 : sequence.num_tokens();
    return Tell(DecisionKind::kReadmitted, request, tokens, blocks_.num_free());
  }
  Tell(DecisionKind::kSwappedIn, request, request.num_swapped_blocks, blocks_.num_free());
  blocks_.swap().In(request.sequences, plan_);
  request.num_swapped_blocks = 0;
}

/// Blocks that a table with `entries` entries, `held` of them blocks, still takes until it covers num_tokens tokens.
int Scheduler::BlocksAhead(int entries, int held, int num_tokens) const {
  int blocks = blocks_.BlocksFor(num_tokens) - entries;
  if (blocks_.sliding_window() > 0) {  // later blocks replace blocks that leave the window
    const int most = blocks_.BlocksFor(int64_t{blocks_.sliding_window()} + limits_.max_step_tokens) + 1;
    blocks = std::min(blocks, most - held);
  }
  return std::max(0, blocks);
}

/// Blocks that the sequence still has to take for num_tokens tokens, beyond the blocks it holds and `shared` ones held
/// by other sequences.
int Scheduler::BlocksAhead(const Sequence& sequence, int num_tokens, int shared) const {
  return BlocksAhead(static_cast<int>(sequence.blocks.size()) + shared, sequence.num_held_blocks(), num_tokens);
}

/// Free blocks that a request without blocks needs for all its known tokens.
int Scheduler::BlocksToBegin(Request& request) {
  const int prompt = (request.num_prompt_tokens() - 1) / blocks_.block_size();  // full prompt blocks that choices share
  const int cacheable = std::min(prompt, request.NumCacheable() / blocks_.block_size());
  const bool window = blocks_.sliding_window() > 0;  // a shared block may leave one sequence's window and not another's
  int needed = 0;
  for (Sequence& sequence : request.sequences) {
    if (sequence.finished) continue;
    const int shared = needed > 0 ? prompt : window ? 0 : blocks_.prefixes().HeldBlocks(sequence, cacheable);
    needed += std::max(1, BlocksAhead(sequence, sequence.num_tokens(), shared)) + blocks_.states().num_blocks();
  }
  return needed;
}

/// Blocks for the swapped-out blocks and for known tokens that are not computed.
int Scheduler::BlocksToComeBack(const Request& request) const {
  int needed = request.num_swapped_blocks;
  for (const Sequence& sequence : request.sequences) {
    if (sequence.finished) continue;
    const auto entries = static_cast<int>(sequence.host_blocks.size());
    needed += std::max(1, BlocksAhead(entries, entries - sequence.first_block, sequence.num_tokens()));
    // Several choices may share the block that is written next: one more for a copy.
    needed += request.sequences.size() > 1 && sequence.num_computed % blocks_.block_size() != 0;
    // Choices that share a recurrent state need a copy of the state as well, and a sequence without a state needs one.
    if (request.sequences.size() > 1 || sequence.host_state.empty()) needed += blocks_.states().num_blocks();
  }
  return needed;
}

int Scheduler::Needs(Request& request, Resource resource) {
  if (resource == Resource::kSlots) return static_cast<int>(request.sequences.size());
  return request.swapped_out() ? BlocksToComeBack(request) : BlocksToBegin(request);
}

/// Admission looks ahead. A newcomer must fit with all its known tokens beside the tokens that running requests still
/// compute and will soon draw, so that it rarely causes a preemption.
Scheduler::Room Scheduler::RoomFor(Request& request, const Crowd& crowd) {
  // A client with running requests must not use room reserved for absent clients. Counted anew for each request: a
  // client that was admitted with this very plan is absent no longer.
  const KeptRoom reserved = CountReserves();
  const bool leaves = reserved.sequences > 0 && Has(*request.account, Resource::kSlots) > 0;
  const int taken = crowd.sequences + (leaves ? reserved.sequences : 0);
  if (taken + Needs(request, Resource::kSlots) > limits_.max_running)
    return {Resource::kSlots, taken, limits_.max_running};
  const int blocks = Needs(request, Resource::kBlocks);
  const int promised = crowd.blocks + (leaves ? reserved.blocks : 0);
  const int free = blocks_.num_free() - promised - blocks_.watermark_blocks();
  // Blocks that are being copied to or from other workers will soon be free.
  const bool can_wait = !running_.empty() || (!blocks_.device_holdings().empty() && blocks > blocks_.num_free());
  if (!can_wait || blocks <= free) return {std::nullopt, blocks, free};
  return {Resource::kBlocks, blocks, free};
}

bool Scheduler::HasRoomFor(Request& request, const Crowd& crowd) {
  const Room room = RoomFor(request, crowd);
  if (!room.lacks) {
    const bool pins_are_in_the_way = running_.empty() && room.a > blocks_.num_free();
    if (pins_are_in_the_way && blocks_.pins().Break()) Tell(DecisionKind::kPinsBroken, request, 0, 0);
    return true;
  }
  const bool slots = room.lacks == Resource::kSlots;
  Tell(slots ? DecisionKind::kHeldForSlots : DecisionKind::kHeldForBlocks, request, room.a, room.b);
  return false;
}

/// Blocks that a running request will take soon.
int Scheduler::OutstandingBlocks(const Request& request) const {
  int blocks = 0;
  const int shared = request.forked ? 0 : (request.num_prompt_tokens() - 1) / blocks_.block_size();
  bool first = true;  // before the fork only the first sequence has the shared blocks
  for (const Sequence& sequence : request.sequences) {
    if (sequence.finished) continue;
    const int longest = sequence.num_prompt_tokens + request.limits.max_tokens - 1;  // the last token is never computed
    const int soon = std::min(sequence.length() + limits_.lookahead_tokens, longest);
    blocks += BlocksAhead(sequence, soon, first ? 0 : shared);
    if (blocks_.has_states()) blocks += blocks_.states().MostToGrow(sequence);
    first = false;
  }
  return blocks;
}

int Scheduler::BlocksOf(const Request& request) const {
  return request.swapped_out() ? request.num_swapped_blocks : DistinctBlocks(request.sequences);
}

}  // namespace quire

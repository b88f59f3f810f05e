#include "coordinator/core/schedule/admission.h"

#include <algorithm>
#include <utility>

namespace quire {

/// False when the request must not be admitted into this step. It must be allowed to run beside the running requests. A
/// swapped-out request returns only with a plan that is sure to be sent. A step planned ahead is sure to be sent only
/// if it already has other work.
bool Admission::MayJoin(const Request& request, const Crowd& crowd, const StepDraft& draft) const {
  if (request.swapped_out() && draft.ahead && draft.step->members.empty()) return false;
  return room_.MayRunBeside(request, crowd);
}

/// Admits the requests of draft.returning, then other waiting requests, client by client. When a client's next request
/// does not fit, other clients still get their turns unless they are held up (ClientShares::IsHeldUp).
void Admission::AdmitWaiting(StepDraft& draft) {
  if (queue_.empty() || draft.budget <= 0) return;
  Crowd crowd = room_.CountCrowd();
  queue_.BeginTurns();
  for (Request* request : draft.returning) {
    const bool lost_its_turn = request->account->use.gave_way;
    if (draft.budget > 0 && !lost_its_turn && MayJoin(*request, crowd, draft) && HasRoomFor(*request, crowd, draft))
      Begin(*request, crowd, draft);
  }
  bool others_held = false;
  while (ClientAccount* client = draft.budget > 0 && draft.work_left > 0 ? queue_.Next() : nullptr) {
    Request& request = client->head();
    if (!MayJoin(request, crowd, draft)) return;
    client->use.passed_over = shares_.IsAtLimit(*client, draft) || shares_.IsHeldUp(*client, others_held, draft);
    if (client->use.passed_over || room_.StandsBack(*client, crowd, draft)) continue;
    const bool fits = HasRoomFor(request, crowd, draft);
    NoteTurn(*client, fits);
    if (!fits) {
      client->use.passed_over = others_held = true;
      continue;
    }
    const LongPasses::Fit fit = passes_.FitOf(request, draft);
    if (fit == LongPasses::Fit::kNextStep) return;
    if (fit == LongPasses::Fit::kWaits) {
      decisions_.Tell(DecisionKind::kHeldForPasses, request, request.num_prompt_tokens(), passes_.KeptRows());
      client->use.passed_over = !LongPasses::LetOvertake(*client, draft);
      continue;
    }
    Begin(request, crowd, draft);
  }
}

void Admission::NoteTurn(ClientAccount& client, bool fits) {
  if (!std::exchange(client.use.left_room, false) || fits) return;
  Request& head = client.head();
  ++head.num_yields;
  decisions_.Tell(DecisionKind::kStoodBack, head, shares_.Needs(head, Resource::kSlots),
                  shares_.ShareOf(Resource::kSlots));
}

/// True when the request fits beside the running requests; otherwise tells the decision log which resource the request
/// lacks. If no request runs and the request would fit without the pinned blocks, ends all pins.
bool Admission::HasRoomFor(Request& request, const Crowd& crowd, StepDraft& draft) {
  const Room room = room_.RoomFor(request, crowd, draft);
  if (!room.lacks) {
    const bool pins_are_in_the_way = running_.empty() && room.a > blocks_.num_free();
    if (pins_are_in_the_way && blocks_.pins().Break()) decisions_.Tell(DecisionKind::kPinsBroken, request, 0, 0);
    return true;
  }
  const bool slots = room.lacks == Resource::kSlots;
  decisions_.Tell(slots ? DecisionKind::kHeldForSlots : DecisionKind::kHeldForBlocks, request, room.a, room.b);
  return false;
}

/// Admits the request and puts its first tokens into the step. Running requests already have their work in the step, so
/// none may be preempted for the new request; HasRoomFor ensures that it fits. If HasRoomFor's estimate was wrong, the
/// first tokens come with the next step.
void Admission::Begin(Request& request, Crowd& crowd, StepDraft& draft) {
  const std::span<GrowTarget> work = Admit(request, draft);
  if (running_.size() == 1) preemption_.MakeRoomFor(request, work, draft);
  if (!work.empty() && blocks_.BlocksToGrow(work) <= blocks_.num_free()) {
    writer_.Emit(request, work, draft);
    draft.admitted = true;
  }
  room_.CountIn(request, crowd);
}

std::span<GrowTarget> Admission::Admit(Request& request, StepDraft& draft) {
  queue_.Remove(request);
  running_.Insert(request);
  request.admitted_step = draft.number;
  draft.use_counted = false;
  KeepRoomOf(*request.account, draft);
  for (Sequence& sequence : request.sequences) sequence.sits_out = false;
  const int free = blocks_.num_free();
  if (request.num_preemptions > 0) Readmit(request, draft);
  const int tokens = passes_.TokensAtAdmission(request, draft);
  const int decodes = std::min(request.NumDecodes(), tokens);
  const std::span<GrowTarget> work = work_.FindWork(request, {decodes, tokens - decodes, draft.work_left}, draft);
  if (request.num_preemptions == 0) {
    WaitingQueue::ChargePrompt(request, request.num_prompt_tokens());
    decisions_.Tell(DecisionKind::kAdmitted, request, request.num_cached_tokens, free);
  }
  draft.use_counted = false;
  return work;
}

/// If the client's reserve has not ended and the client uses all reserved slots again, extends the reserve to
/// kReservedSteps steps from now.
void Admission::KeepRoomOf(ClientAccount& client, StepDraft& draft) {
  ClientAccount::Reserve& reserve = client.reserve;
  if (reserve.until_step <= draft.number || shares_.Has(client, Resource::kSlots, draft) < reserve.sequences) return;
  reserve.until_step = draft.number + kReservedSteps;
}

/// Swaps a preempted request back in, or reports how many tokens it must compute again.
void Admission::Readmit(Request& request, StepDraft& draft) {
  if (!request.swapped_out()) {
    int tokens = 0;
    for (const Sequence& sequence : request.sequences) tokens += sequence.finished ? 0 : sequence.num_tokens();
    return decisions_.Tell(DecisionKind::kReadmitted, request, tokens, blocks_.num_free());
  }
  decisions_.Tell(DecisionKind::kSwappedIn, request, request.num_swapped_blocks, blocks_.num_free());
  blocks_.swap().In(request.sequences, draft.plan);
  request.num_swapped_blocks = 0;
}

}  // namespace quire

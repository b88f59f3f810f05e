#include "coordinator/core/schedule/place_sharing.h"

#include <algorithm>

namespace quire {

/// Admits waiting requests, client by client. For a swapped-out request, only makes sure that the request fits;
/// Admission swaps the request in after the running requests have got their work. Returns false when a request must be
/// preempted, but steps are outstanding.
bool PlaceSharing::SharePlaces(StepDraft& draft) {
  if (queue_.empty()) return true;
  Crowd crowd = room_.CountCrowd();
  bool others_held = false;
  while (ClientAccount* client = queue_.Next()) {
    Request& head = client->head();
    if (!room_.MayRunBeside(head, crowd)) return true;
    client->use.passed_over = shares_.IsAtLimit(*client, draft) || shares_.IsHeldUp(*client, others_held, draft);
    if (client->use.passed_over || room_.StandsBack(*client, crowd, draft)) continue;
    const bool fits = !room_.RoomFor(head, crowd, draft).lacks || MakeWayFor(head, crowd, draft);
    if (draft.left_out) return false;
    admission_.NoteTurn(*client, fits);
    client->use.passed_over = !fits || head.swapped_out();
    others_held = others_held || client->use.passed_over;
    if (!fits) continue;
    if (head.swapped_out())
      draft.returning.push_back(&head);
    else
      admission_.Admit(head, draft);  // ServeRunning finds the request's work again, in the order of service
    room_.CountIn(head, crowd);
  }
  return true;
}

/// Preempts the youngest requests of clients above their share until the request fits, provided that it stays within
/// its own client's share. Returns false when the request does not fit, or when preemption must wait until no step is
/// outstanding.
bool PlaceSharing::MakeWayFor(Request& head, Crowd& crowd, StepDraft& draft) {
  if (!shares_.IsWithinShare(head, draft)) return false;
  while (const std::optional<Resource> lacks = room_.RoomFor(head, crowd, draft).lacks) {
    Request* victim = WhoGivesWay(head, *lacks, draft);
    draft.left_out = victim != nullptr && draft.ahead;
    if (victim == nullptr || draft.left_out) return false;
    const auto kind = *lacks == Resource::kSlots ? DecisionKind::kGivesUpPlaces : DecisionKind::kGivesUpBlocks;
    decisions_.Tell(kind, *victim, shares_.Has(*victim->account, *lacks, draft), shares_.ShareOf(*lacks), head.id);
    ++victim->num_yields;
    victim->account->use.gave_way = victim->account->use.passed_over = true;
    room_.CountOut(*victim, crowd);
    preemption_.Preempt(*victim, head, draft);
    draft.use_counted = false;
    const auto uses = [&](Resource resource) {
      return shares_.Has(*head.account, resource, draft) + shares_.Needs(head, resource);
    };
    head.account->reserve = {uses(Resource::kSlots), uses(Resource::kBlocks), draft.number + Admission::kReservedSteps};
  }
  return true;
}

/// Returns the youngest unprotected request of the client that has the most of the lacking resource and more than its
/// share; null: there is none. The client of `head` gives nothing. A request that was preempted for another client is
/// protected for some steps after its return; others may have to wait for the end of these steps. A request that needs
/// more than its client's share may be preempted again and again while other clients keep sending requests.
Request* PlaceSharing::WhoGivesWay(const Request& head, Resource resource, StepDraft& draft) const {
  Request* youngest = nullptr;
  int most = shares_.ShareOf(resource);
  const std::vector<Request*>& running = running_.requests();
  for (auto it = running.rbegin(); it != running.rend(); ++it) {
    Request& request = **it;
    if (request.account == head.account || IsProtected(request, draft)) continue;
    const int has = shares_.Has(*request.account, resource, draft);
    if (has <= most) continue;
    youngest = &request;
    most = has;
  }
  return youngest;
}

bool PlaceSharing::IsProtected(const Request& request, const StepDraft& draft) {
  if (request.num_yields == 0) return false;
  const int64_t steps = request.num_yields == 1 ? kProtectedSteps : 2 * kProtectedSteps;
  return draft.number - request.admitted_step < steps;
}

}  // namespace quire

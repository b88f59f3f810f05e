#include "coordinator/core/schedule/room_estimate.h"

namespace quire {

bool RoomEstimate::MayRunBeside(const Request& request, const Crowd& crowd) const {
  return running_.empty() || (!IsSuspect(request) && !crowd.suspect);
}

Crowd RoomEstimate::CountCrowd() const {
  Crowd crowd;
  for (const Request* request : running_.requests()) CountIn(*request, crowd);
  return crowd;
}

void RoomEstimate::CountIn(const Request& request, Crowd& crowd) const {
  crowd.sequences += static_cast<int>(request.sequences.size());
  crowd.blocks += demand_.Soon(request);
  crowd.suspect = crowd.suspect || IsSuspect(request);
}

void RoomEstimate::CountOut(const Request& request, Crowd& crowd) const {
  crowd.sequences -= static_cast<int>(request.sequences.size());
  crowd.blocks -= demand_.Soon(request);
}

Room RoomEstimate::RoomFor(Request& request, const Crowd& crowd, StepDraft& draft) const {
  // A client with running requests must not use sequences or blocks that are reserved for other clients. The reserve is
  // counted anew for each request, because this plan may have admitted a request of such a client.
  KeptRoom reserved = shares_.CountReserves(*request.account, draft);
  // Checked first, because Has goes through all running requests.
  const bool is_reserved = reserved.sequences + reserved.blocks > 0;
  if (is_reserved && shares_.Has(*request.account, Resource::kSlots, draft) == 0) reserved = {};
  const int taken = crowd.sequences + reserved.sequences;
  if (taken + shares_.Needs(request, Resource::kSlots) > limits_.max_running)
    return {Resource::kSlots, taken, limits_.max_running};
  const int blocks = shares_.Needs(request, Resource::kBlocks);
  const int promised = crowd.blocks + reserved.blocks;
  const int free = blocks_.num_free() - promised - blocks_.watermark_blocks();
  // The request may wait for a running request to end, or for blocks that are being copied to or from other workers.
  const bool can_wait = !running_.empty() || (!blocks_.device_holdings().empty() && blocks > blocks_.num_free());
  if (!can_wait || blocks <= free) return {std::nullopt, blocks, free};
  return {Resource::kBlocks, blocks, free};
}

/// True when several clients are active, the client has not stood back in this round of turns yet, and its running
/// requests and its next request together exceed its share. Clients within their shares go first: they could preempt
/// the next request immediately, and its computed tokens would be lost. At the client's next turn the request takes
/// sequences and blocks to which no other client is entitled. A request that exceeds a share by itself stands back only
/// if it would fit now, and never after it has yielded (Request::num_yields): otherwise other clients could delay it
/// forever.
bool RoomEstimate::StandsBack(ClientAccount& client, const Crowd& crowd, StepDraft& draft) const {
  Request& head = client.head();
  if (client.use.stands_back || !shares_.InCompany() || shares_.IsWithinShare(head, draft)) return false;
  const bool exceeds_alone = shares_.ExceedsShareAlone(head);
  if (exceeds_alone && (head.num_yields > 0 || RoomFor(head, crowd, draft).lacks)) return false;
  client.use.left_room = exceeds_alone;
  client.use.stands_back = true;
  return true;
}

}  // namespace quire

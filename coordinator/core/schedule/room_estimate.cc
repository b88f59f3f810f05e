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
  // A client with running requests must not use room that is reserved for clients without running requests. The reserve
  // is counted again for each request, because this plan may have admitted such a client.
  const KeptRoom reserved = shares_.CountReserves(draft);
  const bool leaves = reserved.sequences > 0 && shares_.Has(*request.account, Resource::kSlots, draft) > 0;
  const int taken = crowd.sequences + (leaves ? reserved.sequences : 0);
  if (taken + shares_.Needs(request, Resource::kSlots) > limits_.max_running)
    return {Resource::kSlots, taken, limits_.max_running};
  const int blocks = shares_.Needs(request, Resource::kBlocks);
  const int promised = crowd.blocks + (leaves ? reserved.blocks : 0);
  const int free = blocks_.num_free() - promised - blocks_.watermark_blocks();
  // The request may wait for a running request to end, or for blocks that are being copied to or from other workers.
  const bool can_wait = !running_.empty() || (!blocks_.device_holdings().empty() && blocks > blocks_.num_free());
  if (!can_wait || blocks <= free) return {std::nullopt, blocks, free};
  return {Resource::kBlocks, blocks, free};
}

}  // namespace quire

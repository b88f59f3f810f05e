// The part of BatchRunner that decides which batch's request begins next.
#include <algorithm>

#include "coordinator/api/batches/active_batch.h"

namespace quire {

/// True when a request of the batch may begin now.
bool BatchRunner::HasLine(const Active& batch) const {
  return batch.ready && !batch.stopping && !batch.pending.empty() && batch.rests_until <= Clock::now() &&
         MayGo(batch.client);
}

BatchRunner::Places BatchRunner::PlacesNow() const {
  if (port_->draining()) return {.in_all = 0, .each = 0};
  if (port_->num_pending_of_others() > 0) return {.in_all = 1, .each = 1};
  const auto takes_part = [this](const ActivePtr& batch) { return batch->in_flight > 0 || HasLine(*batch); };
  const auto batches = static_cast<int>(std::ranges::count_if(active_, takes_part));
  return {.in_all = concurrency_, .each = std::max(1, concurrency_ / std::max(1, batches))};
}

/// Returns the batch whose request begins next: among the batches with the fewest running requests, the batch that has
/// waited longest since its last request began. Returns null when no request may begin.
BatchRunner::ActivePtr BatchRunner::NextWithLine() const {
  ActivePtr next;
  for (const ActivePtr& batch : active_) {
    if (HasLine(*batch) && (next == nullptr || batch->in_flight < next->in_flight)) next = batch;
  }
  return next;
}

void BatchRunner::StartLines() {
  const Places places = PlacesNow();
  while (const ActivePtr batch = NextWithLine()) {
    const bool below_its_part = batch->in_flight < places.each;
    if (in_flight_ >= (below_its_part ? concurrency_ : places.in_all)) {
      if (below_its_part) TakeAPlaceBack(places.each);
      return;
    }
    active_.splice(active_.end(), active_, std::ranges::find(active_, batch));
    const LinePlace place = batch->pending.front();
    batch->pending.pop_front();
    ++in_flight_;
    ++batch->in_flight;
    Spawn(RunLine(batch, place));
  }
}

/// Stops the request that began last of the batch with the most running requests, if that batch has more than `each`.
/// The request runs again later. Does nothing while an earlier stopped request has not ended yet.
void BatchRunner::TakeAPlaceBack(int each) {
  const auto any_stops = [](const ActivePtr& batch) {
    return std::ranges::any_of(batch->responders, &LineResponder::gone);
  };
  if (std::ranges::any_of(active_, any_stops)) return;
  const ActivePtr most =
      *std::ranges::max_element(active_, {}, [](const ActivePtr& batch) { return batch->in_flight; });
  if (most->in_flight > each && !most->responders.empty()) most->responders.back()->Leave();
}

}  // namespace quire

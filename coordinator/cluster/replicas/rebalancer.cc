#include "coordinator/cluster/replicas/rebalancer.h"

#include <algorithm>

namespace quire {

namespace {

/// True when every unfinished sequence has generated a token, so that only decoding is left.
bool HasBegun(const Request& request) {
  return std::ranges::all_of(request.sequences, [](const Sequence& s) { return s.finished || s.num_generated() > 0; });
}

RequestShape ShapeOf(const Request& request, const Engine& engine) {
  RequestShape shape{0, engine.blocks().block_size()};
  for (const Sequence& s : request.sequences)
    shape.blocks += s.finished ? 0 : engine.blocks().BlocksFor(s.num_tokens());
  return shape;
}

}  // namespace

std::vector<ReplicaView> Rebalancer::Views() const {
  std::vector<ReplicaView> views;
  for (const Replica* replica : replicas_) views.push_back(replica->view());
  return views;
}

void Rebalancer::PassOnPrefilled(int replica, const Engine& engine) {
  std::optional<std::vector<ReplicaView>> views;
  for (const Request* request : engine.scheduler().running()) {
    if (!HasBegun(*request) || migrations_.moving(request->id)) continue;
    if (!views) views = Views();
    const RequestShape shape = ShapeOf(*request, engine);
    const auto to = ChooseDecoder(*views, replica, shape);
    if (!to) return;
    (*views)[static_cast<size_t>(*to)].running += static_cast<int>(request->sequences.size());
    (*views)[static_cast<size_t>(*to)].free_blocks -= shape.blocks;
    migrations_.Move(request->id, replica, *to);
  }
}

const Request* Rebalancer::WhoLeaves(const Engine& engine) const {
  const double rested = EngineLoop::Now() - kRestSeconds;
  const Request* leaves = nullptr;
  const auto consider = [&](const Request* candidate) {
    if (candidate->last_moved_seconds > rested || migrations_.moving(candidate->id)) return;
    const bool fresh = candidate->first_scheduled_seconds < 0;
    const bool other_fresh = leaves != nullptr && leaves->first_scheduled_seconds < 0;
    if (leaves == nullptr || (fresh != other_fresh ? fresh : Senior(*leaves, *candidate))) leaves = candidate;
  };
  for (const Request* waiting : engine.scheduler().queue().All()) consider(waiting);
  if (leaves == nullptr) {
    for (const Request* running : engine.scheduler().running()) consider(running);
  }
  return leaves;
}

void Rebalancer::OnRound(int replica, const Engine& engine) {
  Watch& watch = watches_[static_cast<size_t>(replica)];
  const ReplicaView own = replicas_[static_cast<size_t>(replica)]->view();
  if (own.prefills) PassOnPrefilled(replica, engine);
  const double now = EngineLoop::Now();
  if (now < watch.next_look) return;
  watch.next_look = now + kLookEverySeconds;
  const bool preempted = engine.scheduler().num_preemptions() > watch.preemptions;
  watch.preemptions = engine.scheduler().num_preemptions();
  watch.looks_in_need = preempted || engine.scheduler().num_waiting() > 0 ? watch.looks_in_need + 1 : 0;
  if (watch.looks_in_need < 2) return;
  const Request* request = WhoLeaves(engine);
  if (request == nullptr) return;
  const auto to = ChooseRelief(Views(), replica, preempted, ShapeOf(*request, engine));
  if (to) migrations_.Move(request->id, replica, *to);
}

}  // namespace quire

#include "tests/sim/watcher.h"

#include <algorithm>

#include "comm/base/error.h"
#include "tests/sim/client.h"
#include "tests/sim/simulator.h"

namespace quire::sim {

void Watcher::OnDecision(const Decision& d) {
  if (aloud_) fmt::print("  {}\n", Describe(d));
  switch (d.kind) {
    case DecisionKind::kPreemptedRecompute:
    case DecisionKind::kPreemptedSwap:
      if (d.kind == DecisionKind::kPreemptedSwap) swapped_out += d.a;
      OnPreempted(d);
      break;
    case DecisionKind::kBroughtFromHost:
      brought += d.a;
      break;
    case DecisionKind::kAdmitted:
    case DecisionKind::kReadmitted:
    case DecisionKind::kSwappedIn:
      if (d.kind == DecisionKind::kSwappedIn) swapped_in += d.a;
      OnAdmitted(d);
      break;
    case DecisionKind::kGivesUpPlaces:
    case DecisionKind::kGivesUpBlocks:
      OnGivesWay(d);
      break;
    case DecisionKind::kStoodBack:
      OnStoodBack(d);
      break;
    case DecisionKind::kHeldForSlots:
    case DecisionKind::kHeldForBlocks:
    case DecisionKind::kHeldForPasses:
      turns_.NoteCached(engine_.requests(), d.request);
      if (!Overtakes(d.request)) turns_.Held(d.request, engine_.requests());
      break;
    case DecisionKind::kPinsBroken:
      if (engine_.scheduler().num_running() > 1) throw Failure{"pins give way to a request that is not alone"};
      pins_broken = true;
      break;
    case DecisionKind::kSetAside:
      if (d.b == 0) break;  // the request was never queued
      turns_.Left(d.request);
      judge_.Restarts(d.request);
      just_set_aside.push_back(d.request);
      ++set_aside;
      break;
    case DecisionKind::kTakenUp:
      turns_.Joined(*engine_.requests().at(d.request));
      break;
    case DecisionKind::kFinished:
      if (!ended_.insert({d.request, d.a}).second) throw Failure{"ends twice"};
      break;
    case DecisionKind::kTimedOut:
    case DecisionKind::kWaitedTooLong:
      if (d.b <= 0 || d.a < d.b)
        throw Failure{fmt::format("request {} is out of time after {} of {} ms", d.request, d.a, d.b)};
      break;
    default:
      break;
  }
}

void Watcher::BeginPlan() {
  preempted_in_step = admitted_beside_others = pins_broken = false;
  clients_that_gave_way_.clear();
}

/// Checks that the client that was served least gets its next request admitted first. A client may be passed over if
/// its request was preempted for another client in this plan, if its next request is to be swapped in or would exceed
/// the client's own limit, or if that request may have to wait for passes over whole prompts. A client without running
/// requests may pass over every other client. A client with its full share waits for clients with less than their
/// share. The turn of a swapped-in request is decided earlier than the turns of other
/// requests. Running requests may find more of their tokens cached afterwards, which lowers the service of their
/// clients. So the swapped-in request may also pass over clients whose service has fallen since then.
void Watcher::OnAdmitted(const Decision& d) {
  const std::string& client = turns_.ClientOf(d.request);
  const std::vector<RequestId> before = turns_.Before(d.request);
  turns_.NoteCached(engine_.requests(), d.request);
  for (const RequestId head : turns_.Before(d.request)) {
    if (d.kind == DecisionKind::kSwappedIn && std::ranges::find(before, head) == before.end()) continue;
    const Request& passed_over = *engine_.requests().at(head);
    if (MayWaitForPasses(passed_over)) continue;
    if (MayStandBack(passed_over) && !MustStandBack(*engine_.requests().at(d.request))) continue;
    if (!clients_that_gave_way_.contains(passed_over.client) && !passed_over.swapped_out() && !IsAtLimit(passed_over) &&
        turns_.Runs(client))
      throw Failure{fmt::format("request {} is admitted where it is the turn of {}", d.request, head)};
  }
  if (IsAtLimit(*engine_.requests().at(d.request)))
    throw Failure{fmt::format("request {} is admitted beyond its client's limit", d.request)};
  CheckKeptRoom(*engine_.requests().at(d.request));
  CheckRightToRoom(*engine_.requests().at(d.request));
  const bool overtakes = Overtakes(d.request);
  overtaken += overtakes;
  turns_.Admitted(d.request, engine_.requests(), overtakes);
  admitted_step_[d.request] = engine_.stats().steps;
  KeptRoom& room = kept_rooms_[client];
  if (room.until_step > engine_.stats().steps && UseWith(*engine_.requests().at(d.request)).sequences >= room.sequences)
    room.until_step = engine_.stats().steps + Scheduler::kReservedSteps;
  if (engine_.scheduler().num_running() > 1) admitted_beside_others = true;
}

/// True when passes over whole prompts are under way, and the request may have to wait for their end, because its
/// prompt may be too long for what is left of a step.
bool Watcher::MayWaitForPasses(const Request& request) const {
  const auto in_pass = [](const Request* other) { return other->InPass(); };
  return request.num_prompt_tokens() > 1 && std::ranges::any_of(engine_.scheduler().running(), in_pass);
}

/// True when the request is admitted before its client's next request, which must wait until passes over other whole
/// prompts end. Throws Failure where this is not allowed.
bool Watcher::Overtakes(RequestId id) const {
  const RequestId head = turns_.HeadOfClient(id);
  if (head == id) return false;
  const Request &request = *engine_.requests().at(id), &next = *engine_.requests().at(head);
  if (!MayWaitForPasses(next) || request.num_prompt_tokens() >= next.num_prompt_tokens())
    throw Failure{fmt::format("request {} is admitted where it is the turn of {}", id, head)};
  return true;
}

/// Returns the largest numbers of running sequences and blocks that the client has with this request, whether the
/// request already runs or not.
Watcher::Use Watcher::UseWith(const Request& head) const {
  const auto longest = [&](const Request& r) {
    const auto& client = dynamic_cast<const Client&>(*r.sink);
    return BlocksAtLongest(client.ask(), engine_.options());
  };
  Use use{static_cast<int>(head.sequences.size()), longest(head)};
  for (const Request* request : engine_.scheduler().running()) {
    if (request == &head || request->client != head.client) continue;
    use.sequences += static_cast<int>(request->sequences.size());
    use.blocks += longest(*request);
  }
  return use;
}

bool Watcher::IsAtLimit(const Request& head) const {
  const ClientLimits& limits = head.client_limits;
  const Use use = UseWith(head);
  return (limits.max_running_seqs > 0 && use.sequences > limits.max_running_seqs) ||
         (limits.max_blocks > 0 && use.blocks > limits.max_blocks);
}

int Watcher::ShareOfPlaces() const { return std::max(1, engine_.options().scheduler.max_running / turns_.NumActive()); }

/// True when the request must let other clients' requests be admitted first ("stand back"). Either it has more choices
/// than its client's share of the running sequences and has never stood back; or its blocks fit into the share,
/// whatever is cached, but the client's running requests leave it too few of the share's sequences.
bool Watcher::MustStandBack(const Request& request) const {
  if (turns_.NumActive() > 1 && static_cast<int>(request.sequences.size()) > ShareOfPlaces())
    return !num_yields_.contains(request.id);
  const auto& client = dynamic_cast<const Client&>(*request.sink);
  return MayStandBack(request) && UseWith(request).sequences > ShareOfPlaces() &&
         BlocksAtLongest(client.ask(), engine_.options()) <= ShareOfBlocks();
}

/// True when the request may let other clients' requests be admitted first ("stand back"). Either it alone may exceed
/// its client's share and has never stood back; or it may fit into the share, but not together with the client's other
/// requests. Counts the most blocks that the request can need, because the real number depends on caches.
bool Watcher::MayStandBack(const Request& request) const {
  if (turns_.NumActive() < 2) return false;
  const bool too_many = static_cast<int>(request.sequences.size()) > ShareOfPlaces();
  const auto& client = dynamic_cast<const Client&>(*request.sink);
  const int64_t most = std::max<int64_t>(BlocksAtLongest(client.ask(), engine_.options()), MostToBegin(request));
  if (too_many || most > ShareOfBlocks()) {
    if (!num_yields_.contains(request.id)) return true;
    if (too_many) return false;
  }
  const Use use = UseWith(request);
  return use.sequences > ShareOfPlaces() || (turns_.Runs(request.client) && use.blocks > ShareOfBlocks());
}

/// Checks the running sequences that are reserved for other clients (KeptRoom). When a request was last preempted in
/// favour of a client, the number of running sequences that this client then had is reserved for it during some steps.
/// Another client with running requests must not take them.
void Watcher::CheckKeptRoom(const Request& request) const {
  const auto of_it = [&](const Request* r) { return r == &request; };
  const int n = static_cast<int>(request.sequences.size());
  const bool counted = std::ranges::any_of(engine_.scheduler().running(), of_it);
  if (RunningSequences(request.client) - (counted ? n : 0) == 0) return;
  int taken = (counted ? 0 : n) + KeptPlaces(request);
  for (const Request* running : engine_.scheduler().running()) taken += static_cast<int>(running->sequences.size());
  if (taken > engine_.options().scheduler.max_running)
    throw Failure{fmt::format("request {} takes the room that is kept for a client that is away", request.id)};
}

/// Returns how many of the free sequence slots the request must leave to other clients.
int Watcher::KeptPlaces(const Request& request) const {
  int places = 0;
  for (const auto& [client, room] : kept_rooms_) {
    const bool kept = client != request.client && !clients_that_gave_way_.contains(client);
    if (kept && room.until_step > engine_.stats().steps)
      places += std::max(0, std::min(room.sequences, ShareOfPlaces()) - RunningSequences(client));
  }
  return places;
}

/// Returns an upper bound of the blocks that a running or returning request takes for its next lookahead_tokens tokens.
int Watcher::MostToGrow(const Request& request) const {
  const BlockManager& blocks = engine_.blocks();
  int most = 0;
  for (const Sequence& s : request.sequences) {
    const int soon = s.length() + engine_.options().scheduler.lookahead_tokens;
    const int more = blocks.BlocksFor(soon) - static_cast<int>(s.blocks.size());
    if (!s.finished) most += std::max(0, more) + 1 + 3 * blocks.sizes().state_blocks;
  }
  return most;
}

/// Returns an upper bound of the blocks that a waiting request takes to begin or to come back.
int Watcher::MostToBegin(const Request& request) const {
  const BlockManager& blocks = engine_.blocks();
  int most = request.num_swapped_blocks;
  for (const Sequence& s : request.sequences)
    most += blocks.BlocksFor(s.num_tokens()) + 1 + 2 * blocks.sizes().state_blocks;
  return most;
}

/// Returns the requests of other clients that wait to be swapped in. This plan may have reserved blocks for them and
/// may swap them in later.
std::vector<RequestId> Watcher::ReturningBefore(const Request& request) const {
  std::vector<RequestId> returning = turns_.HeadsOfOthers(request.id);
  std::erase_if(returning, [&](RequestId id) { return !engine_.requests().at(id)->swapped_out(); });
  return returning;
}

/// False when the pool has enough blocks for the request, for everything that all running and returning requests can
/// take soon, for the blocks that are reserved for other clients, and for the watermark.
bool Watcher::MayLackBlocks(const Request& request) const {
  const BlockManager& blocks = engine_.blocks();
  const int watermark = static_cast<int>(engine_.options().blocks.watermark * blocks.num_usable());
  int most = MostToBegin(request) + watermark;
  std::vector<const Request*> present(engine_.scheduler().running().begin(), engine_.scheduler().running().end());
  for (const RequestId id : ReturningBefore(request)) present.push_back(engine_.requests().at(id).get());
  for (const Request* other : present) most += MostToGrow(*other);
  if (RunningSequences(request.client) > 0) {
    for (const auto& [client, room] : kept_rooms_) most += client != request.client ? room.blocks : 0;
  }
  return most > blocks.num_free();
}

/// Checks that a client with its full share does not take sequences or blocks that are within another client's share. A
/// request of that other client would soon preempt the admitted request, and the tokens computed meanwhile would be
/// lost.
void Watcher::CheckRightToRoom(const Request& request) const {
  if (!MustStandBack(request)) return;
  for (const RequestId id : turns_.HeadsOfOthers(request.id)) {
    const Request& head = *engine_.requests().at(id);
    if (MayWaitForPasses(head)) continue;
    const Use use = UseWith(head);
    const bool is_within = use.sequences <= ShareOfPlaces() && use.blocks <= ShareOfBlocks();
    const bool passed_over =
        clients_that_gave_way_.contains(head.client) || head.swapped_out() || IsAtLimit(head) || MayLackBlocks(head);
    if (is_within && !passed_over && head.sequences.size() <= request.sequences.size())
      throw Failure{fmt::format("request {} takes the room that request {} has a right to", request.id, id)};
  }
}

int Watcher::RunningSequences(const std::string& client) const {
  int sequences = 0;
  for (const Request* request : engine_.scheduler().running()) {
    if (request->client == client) sequences += static_cast<int>(request->sequences.size());
  }
  return sequences;
}

int Watcher::ShareOfBlocks() const {
  const int usable = engine_.blocks().num_usable();
  return std::max(1, (usable - static_cast<int>(engine_.options().blocks.watermark * usable)) / turns_.NumActive());
}

bool Watcher::IsProtected(RequestId id) const {
  const auto yields = num_yields_.find(id);
  if (yields == num_yields_.end()) return false;
  return engine_.stats().steps - admitted_step_.at(id) < (yields->second == 1 ? 8 : 16);
}

/// Checks a preemption in favour of another client ("gives way"): only the youngest request of a client above its share
/// is preempted, and only for a client below its share.
void Watcher::OnGivesWay(const Decision& d) {
  const Request &victim = *engine_.requests().at(d.request), &cause = *engine_.requests().at(d.cause);
  const auto fails = [&](const char* what) { throw Failure{fmt::format("request {} gives way {}", d.request, what)}; };
  const int n = static_cast<int>(cause.sequences.size());
  const int share = ShareOfPlaces();
  if (victim.client == cause.client) fails("to its own client's");
  if (RunningSequences(cause.client) + n > share) fails("to a client that has its share");
  if (d.kind == DecisionKind::kGivesUpPlaces && RunningSequences(victim.client) <= share)
    fails("whose client has no more places than its share");
  if (d.kind == DecisionKind::kGivesUpBlocks && (d.a <= ShareOfBlocks() || d.b != ShareOfBlocks()))
    fails("whose client has no more blocks than its share");
  if (IsProtected(d.request)) fails("so soon again");
  int places = n + (RunningSequences(cause.client) > 0 ? KeptPlaces(cause) : 0);
  for (const Request* running : engine_.scheduler().running()) places += static_cast<int>(running->sequences.size());
  for (const RequestId id : ReturningBefore(cause))
    places += static_cast<int>(engine_.requests().at(id)->sequences.size());
  if (d.kind == DecisionKind::kGivesUpPlaces && places <= engine_.options().scheduler.max_running)
    fails("although there are places");
  if (d.kind == DecisionKind::kGivesUpBlocks && !MayLackBlocks(cause)) fails("although there are blocks");
  for (const Request* other : engine_.scheduler().running()) {
    if (other->client == victim.client && Senior(victim, *other) && !IsProtected(other->id))
      fails("before a younger one");
  }
  ++num_yields_[d.request];
  ++gave_way;
  clients_that_gave_way_.insert(victim.client);
  gives_way_ = {d.request, d.cause};
  int blocks = MostToBegin(cause);
  for (const Request* running : engine_.scheduler().running()) {
    if (running->client != cause.client) continue;
    blocks += MostToGrow(*running);
    for (const Sequence& s : running->sequences) blocks += static_cast<int>(s.blocks.size());
  }
  kept_rooms_[cause.client] = {RunningSequences(cause.client) + n, blocks,
                               engine_.stats().steps + Scheduler::kReservedSteps};
}

/// Checks that a request lets other clients go first ("stands back") at most once, and only if the request, alone or
/// with its client's other requests, may need more than the client's fair share.
void Watcher::OnStoodBack(const Decision& d) {
  const Request& request = *engine_.requests().at(d.request);
  if (!MayStandBack(request)) throw Failure{fmt::format("request {} stands back, which it need not", d.request)};
  if (num_yields_.contains(d.request)) throw Failure{fmt::format("request {} stands back again", d.request)};
  ++num_yields_[d.request];
  ++stood_back;
}

/// Checks that the right request is preempted for lack of blocks: never the most senior request. The request must be
/// junior to the request that needs the blocks, or its client must exceed its share of blocks by more than the needing
/// client does.
void Watcher::CheckSeniority(const Request& victim, const Request& cause) const {
  if (&victim == engine_.scheduler().running().front()) throw Failure{"the most senior request is preempted"};
  const auto excess = [&](const Request& r) { return std::max(0, r.account->use.blocks - ShareOfBlocks()); };
  const bool has_more = turns_.NumActive() > 1 && excess(victim) > excess(cause);
  if (Senior(victim, cause) && !has_more) throw Failure{fmt::format("request {} is preempted for a junior", victim.id)};
}

void Watcher::OnPreempted(const Decision& d) {
  const Request &victim = *engine_.requests().at(d.request), &cause = *engine_.requests().at(d.cause);
  if (std::exchange(gives_way_, {}) != std::pair{d.request, d.cause}) CheckSeniority(victim, cause);
  if (engine_.num_outstanding() > 0) throw Failure{"somebody is preempted while a step is outstanding"};
  const bool swapped = d.kind == DecisionKind::kPreemptedSwap;
  // A request that pools over its whole prompt loses the pooled rows when it loses its slot.
  const bool whole = PoolsFromTheFirst(victim.sampling.pooling) || engine_.options().scheduler.whole_prompts();
  const bool may_wait = !engine_.blocks().device_holdings().empty();  // true: a plan may stay without work
  const bool may_swap = !whole && !may_wait && d.b > 0 && d.b <= engine_.blocks().host_pool().num_free();
  if (swapped ? mode_ == PreemptionMode::kRecompute : mode_ == PreemptionMode::kSwap && may_swap)
    throw Failure{fmt::format("request {} is preempted in the way that was not asked for", d.request)};
  preempted_in_step = true;
  turns_.Preempted(d.request);
  swapped ? judge_.SwappedOut(d.request) : judge_.Restarts(d.request);
}

}  // namespace quire::sim

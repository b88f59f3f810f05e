// Simulates moves of requests between engines, and moves that break off.
#include <algorithm>

#include "tests/sim/simulation.h"

namespace quire::sim {

/// Ends transfers that broke off. Until a transfer has ended on all ranks, the ranks may write only into the blocks of
/// that transfer.
void Simulation::EndStragglers(bool all) {
  std::erase_if(stragglers_, [&](Straggler& straggler) {
    if (!all && --straggler.events > 0) return false;
    for (SimWorker& worker : workers_) worker.Copy(straggler.rest, straggler.way);
    engine_.ReleaseTicket(straggler.ticket);
    return true;
  });
}

void Simulation::Travel() {
  EndStragglers(false);
  for (size_t i = 0; i < travellers_.size();) {
    const bool packed = travellers_[i].plans_before == 0 || travellers_[i].blocks.empty();
    if (!packed || moves_.Below(3) > 0) {
      ++i;
      continue;
    }
    Traveller traveller = std::move(travellers_[i]);
    travellers_.erase(travellers_.begin() + static_cast<ptrdiff_t>(i));
    if (traveller.request != nullptr || Follow(traveller)) ComeBack(std::move(traveller));
  }
  const bool leaves = static_cast<double>(moves_.Below(1000)) < scenario_.interference.migrate * 1000;
  if (!leaves || engine_.requests().empty() || outcome_.events > kMaxEvents / 2) return;
  auto it = engine_.requests().begin();
  std::advance(it, moves_.Below(static_cast<int64_t>(engine_.requests().size())));
  const bool goes_already = std::ranges::any_of(travellers_, [&](const Traveller& t) { return t.id == it->first; });
  if (goes_already) return;
  if (ways_.Below(2) == 0)
    Depart(it->first);
  else
    SendAhead(it->first);
}

/// Checks that the engine reserves room for incoming blocks exactly when the blocks are of use and there is enough
/// room. Returns whether it did. `room`: number of blocks.
bool Simulation::Reserve(uint64_t ticket, int room, MigrationWay way) {
  const BlockManager& blocks = engine_.blocks();
  const bool on_host = way == MigrationWay::kHost;
  const bool of_use = on_host || (blocks.prefixes().enabled() && blocks.sliding_window() == 0 && !blocks.has_states());
  const int free = on_host ? blocks.host_pool().num_free() : blocks.num_free() - blocks.watermark_blocks();
  const bool has_room = of_use && room <= free;
  if (engine_.Reserve(ticket, room, way) != has_room)
    throw Failure{fmt::format("{} blocks are {}set aside", room, has_room ? "not " : "")};
  return has_room;
}

void Simulation::Depart(RequestId id) {
  const Request& request = *engine_.requests().at(id);
  const int blocks = engine_.scheduler().BlocksOf(request);
  const bool computed = std::ranges::any_of(request.sequences, [](const Sequence& s) { return s.num_computed > 0; });
  Traveller traveller{
      .id = id, .from = ++last_ticket_, .to = ++last_ticket_, .way = MigrationWay::kHost, .plans_before = sent_.size()};
  const bool wants_blocks = moves_.Below(4) > 0;
  const int room = blocks + (wants_blocks ? static_cast<int>(moves_.Below(3)) : 0);
  const bool with_blocks = wants_blocks && Reserve(traveller.to, room, traveller.way);
  // `blocks` is an upper bound: blocks of tokens in flight do not move, and all blocks may have left the sliding
  // window.
  const bool fit_host = scenario_.engine.blocks.sliding_window == 0 &&
                        (request.swapped_out() || blocks <= engine_.blocks().host_pool().num_free());
  // A state that outstanding steps continue from cannot be moved.
  const bool has_states = scenario_.engine.blocks.state_blocks > 0;
  const bool in_flight = std::ranges::any_of(request.sequences, [](const Sequence& s) { return s.num_in_flight > 0; });
  auto departure = engine_.Depart(id, with_blocks ? traveller.from : 0, blocks);
  traveller.request = std::move(departure->request);
  traveller.blocks = std::move(departure->blocks);
  traveller.moves = std::move(departure->moves);
  const bool brings = !traveller.blocks.empty();
  const bool may_bring =
      with_blocks && computed && !(has_states && in_flight) && !PoolsFromTheFirst(traveller.request->sampling.pooling);
  if (brings ? !may_bring : may_bring && fit_host)
    throw Failure{fmt::format("request {} leaves with{} its blocks", id, brings ? "" : "out")};
  if (traveller.plans_before == 0) Pack(traveller);
  travellers_.push_back(std::move(traveller));
  HasLeft(id, brings);
}

void Simulation::HasLeft(RequestId id, bool with_blocks) {
  Forget(id);
  judge_.Departed(id, with_blocks);
  turns_.Left(id);
  newcomers_.Left(id);
}

/// Sends the request's full blocks ahead, from pool to pool. The request runs meanwhile.
void Simulation::SendAhead(RequestId id) {
  const Request& request = *engine_.requests().at(id);
  const Sequence& first = request.sequences.front();
  const int full =
      std::min(first.num_computed / scenario_.engine.blocks.block_size, static_cast<int>(first.blocks.size()));
  Traveller traveller{.id = id,
                      .from = ++last_ticket_,
                      .to = ++last_ticket_,
                      .way = MigrationWay::kDevice,
                      .plans_before = sent_.size()};
  const int room = static_cast<int>(ways_.Below(3) == 0 ? ways_.Below(full + 2) : full + ways_.Below(10));
  if (!Reserve(traveller.to, room, traveller.way)) return;
  traveller.blocks = engine_.Share(id, traveller.from, room);
  const bool has_parts = request.sequences.size() > 1 || PoolsFromTheFirst(request.sampling.pooling);
  const int right = has_parts ? 0 : std::min(full, room);
  if (static_cast<int>(traveller.blocks.size()) != right)
    throw Failure{fmt::format("{} blocks of request {} go ahead, not {}", traveller.blocks.size(), id, right)};
  if (right == 0) return engine_.ReleaseTicket(traveller.to);
  travellers_.push_back(std::move(traveller));
}

/// Takes the request out of the engine after its blocks have arrived. Returns false when it has ended meanwhile.
bool Simulation::Follow(Traveller& traveller) {
  auto departure = engine_.Depart(traveller.id, 0, 0, static_cast<int>(traveller.blocks.size()));
  if (!departure) {
    engine_.ReleaseTicket(traveller.from);
    engine_.ReleaseTicket(traveller.to);
    return false;
  }
  traveller.request = std::move(departure->request);
  HasLeft(traveller.id, false);
  return true;
}

void Simulation::Pack(const Traveller& traveller) {
  for (SimWorker& worker : workers_) worker.SwapOut(traveller.moves);
}

void Simulation::ComeBack(Traveller traveller) {
  const RequestId id = traveller.request->id;
  Client& client = *clients_.at(id);
  const bool breaks = moves_.Below(5) == 0;
  const bool on_device = traveller.way == MigrationWay::kDevice;
  const BlockManager& manager = engine_.blocks();
  const auto* holding = (on_device ? manager.device_holdings() : manager.host_holdings()).Find(traveller.to);
  std::vector<BlockCopyPair> pairs;
  for (size_t i = 0; holding != nullptr && i < traveller.blocks.size(); ++i)
    pairs.push_back({traveller.blocks[i], holding->blocks[i]});
  // A transfer that breaks off has moved half of the blocks. The other half arrives later, when no request waits for
  // it, with the contents that the source blocks have then.
  const bool half = breaks && !pairs.empty();
  const auto rest = pairs.begin() + static_cast<ptrdiff_t>(half ? pairs.size() / 2 : pairs.size());
  for (SimWorker& worker : workers_) worker.Copy({pairs.begin(), rest}, traveller.way);
  if (half) {
    stragglers_.push_back({traveller.to, traveller.way, {rest, pairs.end()}, kStragglerEvents});
    ++outcome_.moved_half;
  }
  if (breaks || pairs.empty()) traveller.blocks.clear();
  const bool brings = !traveller.blocks.empty();
  if (aloud_) fmt::print("  request {} comes back with {} blocks\n", id, traveller.blocks.size());
  ++(!brings ? outcome_.moved_bare : on_device ? outcome_.moved_on_device : outcome_.moved);
  engine_.ReleaseTicket(traveller.from);
  if (on_device && ways_.Below(2) == 0) {  // otherwise its blocks are already in this engine's cache and stay there
    engine_.FlushCache();
    pins_.clear();
  }
  const std::string right = RightRefusal(client.ask(), scenario_.engine, engine_.blocks().num_usable());
  if (engine_.Adopt(traveller.request, half ? 0 : traveller.to, traveller.blocks).has_value() != !right.empty())
    throw Failure{fmt::format("request {} comes back and is {}", id, right.empty() ? "refused" : "taken")};
  ForgetSetAside();
  const bool is_held = manager.device_holdings().Find(traveller.to) != nullptr;
  if (on_device && brings && right.empty() && is_held)
    throw Failure{fmt::format("room for request {} is set aside though it is there", id)};
  if (!half) engine_.ReleaseTicket(traveller.to);
  const bool waits = right.empty() && !client.over() && engine_.requests().at(id)->set_aside;
  judge_.CameBack(id, brings && !on_device && !waits);
  if (!right.empty() && !client.cancelled) {
    client.due = Ending{RequestError::kWorkersLost, ""};
    client.OnError(RequestError::kWorkersLost, "");
  }
  if (!client.over() && !waits) {
    const Request& back = *engine_.requests().at(id);
    turns_.Joined(back);
    LeaveNewcomers(back.client);
    const bool may_find = manager.prefixes().enabled() && scenario_.engine.blocks.hash_bits == 128;
    const bool has_them = !on_device ? back.swapped_out() : IsCached(back) || !may_find;
    if (brings ? !has_them : back.swapped_out())
      throw Failure{fmt::format("the blocks of request {} were lost on the way", id)};
  }
  Settle();
}

/// True when some of the blocks that the request brought are in the prefix cache.
bool Simulation::IsCached(const Request& request) const {
  return std::ranges::any_of(request.sequences, [&](const Sequence& s) {
    return !engine_.blocks().prefixes().Find(request.cache_salt, s.tokens, request.adapter).empty();
  });
}

bool Simulation::IsTravelling(RequestId id) const {
  return std::ranges::any_of(travellers_, [&](const Traveller& t) { return t.id == id && t.request != nullptr; });
}

}  // namespace quire::sim

#include "comm/wire/gate/gate_strangers.h"

#include <algorithm>
#include <utility>

namespace quire {

bool Strangers::HasRoom(const std::string& network) const {
  const auto same = by_network_.find(network);
  return strangers_.size() < kMost && (same == by_network_.end() || same->second.all() < kMostOfNetwork);
}

Stranger* Strangers::WhoGivesWay(const std::string& network) {
  const auto same = by_network_.find(network);
  const bool of_network = same != by_network_.end() && same->second.all() >= kMostOfNetwork;
  const Count& there = of_network ? same->second : all_;
  const bool knows_key = there.of[1] > there.of[0];
  const auto may_go = [&](const Stranger& stranger) {
    return of_network ? stranger.name.network == network : !accepted_.contains(stranger.name.network);
  };
  for (const bool known : {knows_key, !knows_key}) {
    if (Stranger* found = OldestOfLargest(may_go, known)) return found;
  }
  return Oldest();
}

/// Considers only connections that `may_go` accepts and that have this knows_key. Takes the neighbourhood with the most
/// such connections, and returns its oldest one; null when there is none.
Stranger* Strangers::OldestOfLargest(const std::function<bool(const Stranger&)>& may_go, bool knows_key) {
  size_t most = 0;
  Stranger* oldest = nullptr;
  for (auto& [number, stranger] : strangers_) {
    if (stranger.knows_key != knows_key || !may_go(stranger)) continue;
    const size_t count = by_neighbourhood_.at(stranger.name.neighbourhood).of[knows_key];
    if (count <= most) continue;
    most = count;
    oldest = &stranger;
  }
  return oldest;
}

Stranger& Strangers::Add(Descriptor outer, PeerName name, Stranger::Clock::time_point deadline) {
  const uint64_t number = ++last_number_;
  for (Count* count : {&all_, &by_network_[name.network], &by_neighbourhood_[name.neighbourhood]}) ++count->of[0];
  Stranger stranger;
  stranger.number = number;
  stranger.name = std::move(name);
  stranger.outer = std::move(outer);
  stranger.deadline = deadline;
  return strangers_.emplace(number, std::move(stranger)).first->second;
}

Stranger* Strangers::Find(uint64_t number) {
  const auto it = strangers_.find(number);
  return it == strangers_.end() ? nullptr : &it->second;
}

void Strangers::Remove(uint64_t number) {
  const auto it = strangers_.find(number);
  if (it == strangers_.end()) return;
  const Stranger& stranger = it->second;
  --all_.of[stranger.knows_key];
  Leave(by_network_, stranger.name.network, stranger.knows_key);
  Leave(by_neighbourhood_, stranger.name.neighbourhood, stranger.knows_key);
  strangers_.erase(it);
}

void Strangers::Leave(Counts& counts, const std::string& place, bool knows_key) {
  const auto count = counts.find(place);
  --count->second.of[knows_key];
  if (count->second.all() == 0) counts.erase(count);
}

void Strangers::KnowsKey(Stranger& stranger) {
  if (std::exchange(stranger.knows_key, true)) return;
  const PeerName& name = stranger.name;
  for (Count* count : {&all_, &by_network_.at(name.network), &by_neighbourhood_.at(name.neighbourhood)}) {
    --count->of[0];
    ++count->of[1];
  }
}

void Strangers::Accepted(const std::string& network) {
  if (accepted_.size() < kMostAccepted) accepted_.insert(network);
}

Stranger* Strangers::Oldest() { return strangers_.empty() ? nullptr : &strangers_.begin()->second; }

void Strangers::AwaitTurn(const Stranger& stranger) {
  const std::string& network = stranger.name.network;
  std::deque<uint64_t>& line = lines_[network];
  if (line.empty()) turns_[accepted_.contains(network)].push_back(network);
  line.push_back(stranger.number);
}

Stranger* Strangers::NextTurn() {
  while (anybody_waits()) {
    std::list<std::string>& turns = turns_[turns_[0].empty() || (accepted_next_ && !turns_[1].empty())];
    const std::string network = std::move(turns.front());
    turns.pop_front();
    const auto line = lines_.find(network);
    Stranger* next = nullptr;
    while (next == nullptr && !line->second.empty()) {
      next = Find(line->second.front());
      line->second.pop_front();
    }
    if (line->second.empty())
      lines_.erase(line);
    else
      turns.push_back(network);
    if (next == nullptr) continue;
    accepted_next_ = !accepted_next_;
    return next;
  }
  return nullptr;
}

}  // namespace quire

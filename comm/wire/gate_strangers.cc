#include "comm/wire/gate_strangers.h"

#include <algorithm>
#include <utility>

namespace quire {

bool Strangers::HasRoom(const std::string& network) const {
  const auto same = by_network_.find(network);
  return strangers_.size() < kMost && (same == by_network_.end() || same->second < kMostOfNetwork);
}

Stranger* Strangers::WhoGivesWay(const std::string& network) {
  std::string of = network;
  if (const auto same = by_network_.find(network); same == by_network_.end() || same->second < kMostOfNetwork) {
    const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
    const auto largest = std::ranges::max_element(by_network_, less);
    if (largest == by_network_.end()) return nullptr;
    of = largest->first;
  }
  const auto oldest = std::ranges::find_if(strangers_, [&](const auto& s) { return s.second.name.network == of; });
  return oldest == strangers_.end() ? nullptr : &oldest->second;
}

Stranger& Strangers::Add(Descriptor outer, PeerName name, Stranger::Clock::time_point deadline) {
  const uint64_t number = ++last_number_;
  ++by_network_[name.network];
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
  const auto network = by_network_.find(it->second.name.network);
  if (--network->second == 0) by_network_.erase(network);
  strangers_.erase(it);
}

Stranger* Strangers::Oldest() { return strangers_.empty() ? nullptr : &strangers_.begin()->second; }

void Strangers::AwaitTurn(const Stranger& stranger) {
  std::deque<uint64_t>& line = lines_[stranger.name.network];
  if (line.empty()) turns_.push_back(stranger.name.network);
  line.push_back(stranger.number);
}

Stranger* Strangers::NextTurn() {
  while (!turns_.empty()) {
    const std::string network = std::move(turns_.front());
    turns_.pop_front();
    const auto line = lines_.find(network);
    Stranger* next = nullptr;
    while (next == nullptr && !line->second.empty()) {
      next = Find(line->second.front());
      line->second.pop_front();
    }
    if (line->second.empty())
      lines_.erase(line);
    else
      turns_.push_back(network);
    if (next != nullptr) return next;
  }
  return nullptr;
}

}  // namespace quire

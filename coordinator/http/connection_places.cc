#include "coordinator/http/connection_places.h"

#include "coordinator/http/network_turns.h"

namespace quire {

using boost::asio::ip::address;

std::unique_ptr<ConnectionPlaces::Place> ConnectionPlaces::Take(const address& from, std::function<void()> give_way) {
  const auto same = by_address_.find(NetworkOf(from));
  if (same != by_address_.end() && same->second >= most_per_address_) return nullptr;
  if (taken_ >= most_ && !MakeRoomFor(TurnOf(from))) return nullptr;
  auto place = std::make_unique<Place>(*this, from, std::move(give_way));
  place->AwaitClient();
  return place;
}

bool ConnectionPlaces::MakeRoomFor(const address& network) {
  if (by_silence_.empty()) return false;
  const auto own = networks_.find(network);
  if (most_silent() <= (own == networks_.end() ? 0 : own->second.taken) + 1) return false;
  EndOneSilent();
  return true;
}

void ConnectionPlaces::EndOneSilent() {
  Place& place = *networks_.at(by_silence_.rbegin()->second).silent.front();
  place.Leave();
  place.give_way_();
}

void ConnectionPlaces::Count(Networks::const_iterator network, int change) {
  const size_t before = network->second.silent.size(), after = before + change;
  by_silence_.erase({before, network->first});
  if (after > 0) by_silence_.emplace(after, network->first);
}

ConnectionPlaces::Place::Place(ConnectionPlaces& places, const address& from, std::function<void()> give_way)
    : places_(places),
      address_(NetworkOf(from)),
      give_way_(std::move(give_way)),
      network_(places.networks_.try_emplace(TurnOf(from)).first) {
  ++places_.taken_;
  ++network_->second.taken;
  if (!address_.is_loopback()) ++places_.by_address_[address_];
}

void ConnectionPlaces::Place::AwaitClient() {
  if (left_ || silent_) return;
  silent_ = true;
  places_.Count(network_, 1);
  among_silent_ = network_->second.silent.insert(network_->second.silent.end(), this);
}

void ConnectionPlaces::Place::ServeClient() {
  if (!silent_) return;
  silent_ = false;
  places_.Count(network_, -1);
  network_->second.silent.erase(among_silent_);
}

void ConnectionPlaces::Place::Leave() {
  if (left_) return;
  ServeClient();
  left_ = true;
  --places_.taken_;
  if (--network_->second.taken == 0) places_.networks_.erase(network_);
  if (!address_.is_loopback() && --places_.by_address_[address_] == 0) places_.by_address_.erase(address_);
}

}  // namespace quire

#include "coordinator/api/access/pending_places.h"

#include <algorithm>

namespace quire {

int PendingPlaces::taken_by(const std::string& client) const {
  const auto known = by_client_.find(client);
  return known == by_client_.end() ? 0 : known->second;
}

int PendingPlaces::RoomFor(const std::string& client) const {
  const int has = taken_by(client);
  const int clients = static_cast<int>(by_client_.size()) + (has == 0);
  return std::max(most_ - taken_, most_ / clients - has);
}

PendingPlaces::Taken::Taken(PendingPlaces& places, const std::string& client) : places_(places), client_(client) {}

void PendingPlaces::Taken::Resize(int count) {
  if (count == count_) return;
  int& of_client = places_.by_client_[client_];
  of_client += count - count_;
  places_.taken_ += count - count_;
  count_ = count;
  if (of_client == 0) places_.by_client_.erase(client_);
}

}  // namespace quire

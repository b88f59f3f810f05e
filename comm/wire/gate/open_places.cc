#include "comm/wire/gate/open_places.h"

#include <algorithm>
#include <map>

namespace quire {

namespace {

using Places = std::map<std::string, int>;

/// Returns the neighbourhood, or the network, with the most connected peers, and their number.
const Places::value_type& Largest(const Places& places) {
  return *std::ranges::max_element(places, {}, [](const auto& entry) { return entry.second; });
}

/// Returns the number of connected peers of each network in a neighbourhood.
Places NetworksIn(const std::string& neighbourhood, std::span<const PeerName> peers) {
  Places places;
  for (const PeerName& peer : peers) {
    if (peer.neighbourhood == neighbourhood) ++places[peer.network];
  }
  return places;
}

}  // namespace

std::optional<size_t> PlaceFor(const PeerName& newcomer, std::span<const PeerName> peers) {
  Places of_neighbourhoods{{newcomer.neighbourhood, 0}};
  for (const PeerName& peer : peers) ++of_neighbourhoods[peer.neighbourhood];
  const auto& [largest, most] = Largest(of_neighbourhoods);
  const bool from_others = most >= of_neighbourhoods[newcomer.neighbourhood] + 2;
  Places networks = NetworksIn(from_others ? largest : newcomer.neighbourhood, peers);
  if (!from_others) networks.try_emplace(newcomer.network, 0);
  const auto& [network, places] = Largest(networks);
  if (!from_others && places < networks[newcomer.network] + 2) return std::nullopt;
  const auto latest = std::ranges::find(peers.rbegin(), peers.rend(), network, &PeerName::network);
  return static_cast<size_t>(peers.rend() - latest) - 1;
}

}  // namespace quire

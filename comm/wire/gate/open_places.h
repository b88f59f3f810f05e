#pragma once

#include <optional>
#include <span>

#include "comm/wire/gate/gate_sockets.h"

namespace quire {

/// Returns the index of the peer whose place a newcomer to a full port gets; nullopt when the newcomer is refused.
/// `peers`: those that have a place, the latest last. The neighbourhood with the most places loses one to a
/// neighbourhood that has fewer even with the newcomer. Where there is none, the same holds between the newcomer's own
/// neighbourhood's networks. The loser is the latest peer of its neighbourhood's network with the most places.
std::optional<size_t> PlaceFor(const PeerName& newcomer, std::span<const PeerName> peers);

}  // namespace quire

#pragma once

#include <optional>
#include <span>

#include "comm/wire/gate/gate_sockets.h"

namespace quire {

/// Returns the index of the connected peer that a new peer replaces at a full port; nullopt when the new peer is
/// refused. `peers`: the connected peers, the latest last. The neighbourhood with the most peers loses a peer if the
/// new peer's neighbourhood has fewer, the new peer included. Otherwise the same rule applies to the networks within
/// the new peer's neighbourhood. The replaced peer is the latest one of its neighbourhood's network with the most
/// peers.
std::optional<size_t> PlaceFor(const PeerName& newcomer, std::span<const PeerName> peers);

}  // namespace quire

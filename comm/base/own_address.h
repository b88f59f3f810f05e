#pragma once

#include <string>

namespace quire {

/// The address of this host from which "tcp://HOST:PORT" is reached, as numbers; of IPv6 in brackets, as endpoints have
/// it. Nothing is sent. Throws Error where there is no way there.
std::string OwnAddressTowards(const std::string& endpoint);

}  // namespace quire

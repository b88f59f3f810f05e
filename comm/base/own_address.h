#pragma once

#include <string>

namespace quire {

/// Returns this host's own numeric address on the way to "tcp://HOST:PORT", with brackets around an IPv6 address. Sends
/// nothing to HOST. Throws Error when HOST cannot be resolved or has no route.
std::string OwnAddressTowards(const std::string& endpoint);

}  // namespace quire

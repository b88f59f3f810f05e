#pragma once

#include <string>

namespace quire {

/// Returns this host's own numeric address on the way to "tcp://HOST:PORT", with brackets around an IPv6 address. Sends
/// nothing. Throws Error when there is no route to the host.
std::string OwnAddressTowards(const std::string& endpoint);

}  // namespace quire

#pragma once

#include <string>

namespace quire {

/// Returns the numeric address of this host from which "tcp://HOST:PORT" is reached. An IPv6 address is in brackets, as
/// endpoints need it. Sends nothing. Throws Error when there is no route to the host.
std::string OwnAddressTowards(const std::string& endpoint);

}  // namespace quire

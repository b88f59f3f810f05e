#pragma once

#include <string>

namespace quire {

/// Returns the reason why this host cannot listen on an address and port; empty when it can. Port 0 means any free
/// port.
std::string ListeningProblem(const std::string& address, int port);

/// True when the name or address belongs to this host.
bool IsThisHost(const std::string& host);

}  // namespace quire

#pragma once

#include <string>

namespace quire {

/// Why this host cannot listen on an address and port; empty when it can. Port 0 is any free one.
std::string ListeningProblem(const std::string& address, int port);

/// True when the name or address is one of this host's.
bool IsThisHost(const std::string& host);

}  // namespace quire

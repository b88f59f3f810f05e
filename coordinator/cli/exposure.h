#pragma once

#include <string>
#include <vector>

#include "comm/topology/topology.h"

namespace quire {

/// How far an address reaches.
enum class Reach { kLoopback, kNetwork, kWildcard, kUnknown };  // the last: no IP address

/// Who reaches an IPv4 or IPv6 address, in any spelling, or "localhost". Never asks a name server.
Reach ReachOf(const std::string& address);

/// Refuses what others could reach without keys, and what listens on more than it says. Throws Error with the remedy;
/// `where` begins the message.
///
/// | | loopback | another address | 0.0.0.0, :: |
/// | transport.bind | yes | with keys, or insecure: true | never |
/// | server.listen | yes | with API keys, or allow_unauthenticated: true | with API keys |
/// | admin.listen | yes | with a token | with a token |
void CheckExposure(const Topology& topology, const std::string& where);

/// Whether it names keys, whose plain text this process will hold.
bool HasSecrets(const Topology& topology);

/// One line for each protection that the topology switches off.
std::vector<std::string> ExposureWarnings(const Topology& topology);

}  // namespace quire

#pragma once

#include <string>
#include <vector>

#include "comm/topology/topology.h"

namespace quire {

/// The machines from which an address can be reached.
enum class Reach { kLoopback, kNetwork, kWildcard, kUnknown };  // kUnknown: not an IP address

/// Returns the reach of an IPv4 or IPv6 address in any notation, or of "localhost". Does not ask a name server.
Reach ReachOf(const std::string& address);

/// Throws Error, which begins with `where` and names the remedy, for ports that other machines could use without keys,
/// and for wildcard addresses where the topology must name one address. Also checks the origins and host names that
/// browsers may use.
///
/// | | loopback | another address | 0.0.0.0, :: |
/// | transport.bind | yes | with keys, or insecure: true | never |
/// | server.listen | yes | with API keys, or allow_unauthenticated: true | with API keys |
/// | admin.listen | yes | with a token | with a token |
/// | metrics.listen | yes | yes | never |
/// | kv_events | yes | with allow_unauthenticated: true | with allow_unauthenticated: true |
void CheckExposure(const Topology& topology, const std::string& where);

/// True when the topology names files of keys. This process then holds secrets in memory: private keys, or the keys
/// that clients send.
bool HasSecrets(const Topology& topology);

/// Returns one line for each protection that the topology switches off.
std::vector<std::string> ExposureWarnings(const Topology& topology);

}  // namespace quire

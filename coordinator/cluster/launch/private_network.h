#pragma once

#include <string>
#include <vector>

#include "comm/topology/topology.h"

namespace quire {

/// The program's first argument when it only enters a network of its own and becomes the command that follows.
inline constexpr const char* kInPrivateNetwork = "in-private-network";

/// Enters a new network namespace in which there is a loopback interface and nothing else, and becomes the command:
/// what it listens on nobody outside can reach. An ordinary user's process enters a user namespace as well, in which it
/// is nobody else. Returns the exit status when it cannot be done; the reason is on standard error.
int BecomeInPrivateNetwork(char** command);

/// Whether mpirun gets a network of its own, and why it does not.
struct PrivateNetwork {
  bool used = false;
  std::string reason;               // why not; empty when it is used
  std::vector<std::string> prefix;  // words before the command; empty when it is not used

  /// "runs in a network of its own", or where it listens instead and why.
  std::string InWords() const;
};

/// What transport.private_network comes to: used when everything of the deployment that talks is on this host and the
/// system allows it. With "auto" not where workers may take GPUs, whose libraries choose networks of their own. Throws
/// Error when it is "on" and impossible. Starts a process to find out.
PrivateNetwork ChoosePrivateNetwork(const Topology& topology);

}  // namespace quire

#pragma once

#include <string>
#include <vector>

#include "comm/topology/topology.h"

namespace quire {

/// If this is the program's first argument, the program only enters a private network and executes the command that
/// follows the argument.
inline constexpr const char* kInPrivateNetwork = "in-private-network";

/// Enters a new network namespace with only a loopback interface and executes the command, so that its ports are
/// unreachable from outside. An ordinary user's process also enters a user namespace that maps only that user. On
/// failure prints the reason to standard error and returns the exit status.
int BecomeInPrivateNetwork(char** command);

/// Says whether mpirun runs in a private network, and the reason if not.
struct PrivateNetwork {
  bool used = false;
  bool on_loopback = false;         // no private network, but mpirun listens on loopback only (loopback_sockets.cc)
  std::string reason;               // the reason why no private network is used; empty: one is used
  std::vector<std::string> prefix;  // words to put before the command; may be empty

  /// Returns the text for the log: "runs in a network of its own", or the addresses on which mpirun listens instead,
  /// with the reason.
  std::string InWords() const;
};

/// Decides about transport.private_network. A private network is used when all processes that communicate are on this
/// host and the system allows it; a test process finds that out. With "auto" none is used if workers may use GPUs,
/// because GPU libraries choose networks themselves. Throws Error when the setting is "on" and impossible. Without a
/// private network, if all workers are on this host, mpirun listens on loopback only, provided that the module for that
/// is installed.
PrivateNetwork ChoosePrivateNetwork(const Topology& topology);

}  // namespace quire

#pragma once

#include <string>
#include <vector>

#include "comm/topology/topology.h"

namespace quire {

/// The first argument of this program's process when it only enters a private network and executes the command that
/// follows.
inline constexpr const char* kInPrivateNetwork = "in-private-network";

/// Enters a new network namespace with only a loopback interface and executes the command, whose ports are then
/// unreachable from outside. An ordinary user's process also enters a user namespace that maps only that user. On
/// failure prints the reason to standard error and returns the exit status.
int BecomeInPrivateNetwork(char** command);

/// Says whether mpirun runs in a private network, and the reason if not.
struct PrivateNetwork {
  bool used = false;
  bool on_loopback = false;         // not used, but mpirun listens on loopback (loopback_sockets.cc)
  std::string reason;               // why no private network is used; empty when one is used
  std::vector<std::string> prefix;  // put before the command; may be empty

  /// Returns the text for the log: "runs in a network of its own", or the addresses on which mpirun listens instead and
  /// the reason.
  std::string InWords() const;
};

/// Resolves transport.private_network: used when all communicating processes are on this host and the system allows it.
/// "auto" excludes workers that may use GPUs, because GPU libraries choose networks themselves. Throws Error when the
/// setting is "on" and impossible. Runs a test process to find out. Without a private network, if all workers are on
/// this host, mpirun listens on loopback alone, provided that the module for that is installed.
PrivateNetwork ChoosePrivateNetwork(const Topology& topology);

}  // namespace quire

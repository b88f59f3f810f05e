#pragma once

#include <string>

#include "comm/base/host_name.h"
#include "comm/collective/mpi_bootstrap.h"

namespace quire {

struct WorkerOptions {
  std::string coordinator;  // data endpoint: tcp://HOST:PORT or ipc://PATH
  EpochId epoch = 0;        // 0: the coordinator assigns one
  std::string node;         // this host's name in the topology; empty: the system's name of the host
  std::string keys;         // key directory (comm/wire/curve/curve_keys.h); empty: no encryption

  /// Returns the name of this host in messages.
  std::string HostName() const { return node.empty() ? OwnHostName() : node; }
};

/// Runs one rank: joins the coordinator, loads the assigned model, and serves steps until the coordinator tells it to
/// stop. Then returns exit status 0; after an error, ends the process with status 1. Reports the reason of its end on
/// stderr or to the coordinator.
int RunWorker(const WorkerOptions& options, MpiBootstrap& mpi);

/// The exit status of a worker that lost its coordinator (EX_TEMPFAIL).
inline constexpr int kExitOrphaned = 75;

}  // namespace quire

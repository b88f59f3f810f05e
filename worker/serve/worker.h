#pragma once

#include <string>

#include "comm/collective/mpi_bootstrap.h"

namespace quire {

struct WorkerOptions {
  std::string coordinator;  // data endpoint: tcp://HOST:PORT or ipc://PATH
  EpochId epoch = 0;        // 0: whichever the coordinator says
  std::string node;         // what the topology calls this host; empty: its host name
  std::string keys;         // key directory (comm/wire/curve_keys.h); empty: no encryption
};

/// The life of one rank: join, load what the coordinator assigns, serve steps until told to stop.
/// Returns the process's exit status; every way of ending says why on stderr or to the coordinator.
int RunWorker(const WorkerOptions& options, MpiBootstrap& mpi);

/// Exit status of a worker that lost its coordinator (EX_TEMPFAIL).
inline constexpr int kExitOrphaned = 75;

}  // namespace quire

#pragma once

#include <functional>
#include <memory>
#include <string>

#include "comm/collective/device_collective.h"
#include "comm/collective/mpi_bootstrap.h"

namespace quire {

struct NcclOptions {
  std::string name = "quire";  // in NCCL's own messages
  std::chrono::milliseconds init_deadline = std::chrono::seconds(60);
  std::chrono::milliseconds call_deadline = std::chrono::seconds(30);  // of queueing one call, connecting included
  /// Called once, from any thread, when the group has failed or was aborted.
  std::function<void()> on_failure = [] {};
};

/// Collectives by NCCL on the calling thread's current device. A collective call: MPI carries host names and the
/// communicator's id, never data. Throws CollectiveAborted that names rank, hosts, call, NCCL's own words and a remedy.
///
/// The communicator is non-blocking, so that a peer that does not come is an error instead of a hang. The price: NCCL
/// starts a thread for each call, and the call waits for it; a captured graph pays once. A watchdog looks for
/// asynchronous errors ten times a second and aborts the communicator on a failure or a missed deadline.
std::unique_ptr<DeviceCollective> MakeNcclCollective(const MpiBootstrap& mpi, const NcclOptions& options = {});

/// For tests: lets several ranks of a host share one device, which NCCL refuses and does not support. Each rank gets a
/// host id of its own, so that data goes by sockets on the loopback interface and through host memory; nothing that is
/// timed this way says anything about NVLink. Hangs when the ranks' kernels cannot be on the device at once. Before the
/// communicator is made, and before other threads are: it sets environment variables.
void PrepareForSharedDevice(Rank rank);

}  // namespace quire

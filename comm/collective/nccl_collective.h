#pragma once

#include <functional>
#include <memory>
#include <string>

#include "comm/collective/device_collective.h"
#include "comm/collective/mpi_bootstrap.h"

namespace quire {

struct NcclOptions {
  std::string name = "quire";  // shown in NCCL's own messages
  std::chrono::milliseconds init_deadline = std::chrono::seconds(60);
  std::chrono::milliseconds call_deadline = std::chrono::seconds(30);  // time to queue one call, connecting included
  /// Called once, from any thread, when the group has failed or was aborted.
  std::function<void()> on_failure = [] {};
};

/// Makes a collective over NCCL on the calling thread's current device. Collective call: MPI carries only host names
/// and the communicator's id. Throws CollectiveAborted with rank, hosts, call, NCCL's own error text and a remedy. The
/// communicator is non-blocking, so that a missing peer is an error and not a hang. The price for that: NCCL starts a
/// thread for each call, and the call waits for that thread. A captured graph pays the price once. A watchdog checks
/// for asynchronous errors ten times a second, and aborts the communicator on a failure or a missed deadline.
std::unique_ptr<DeviceCollective> MakeNcclCollective(const MpiBootstrap& mpi, const NcclOptions& options = {});

/// For tests: lets several ranks of a host share one device, which NCCL refuses and does not support. Each rank gets a
/// host id of its own, so that data goes through loopback sockets and host memory. Times that are measured in this way
/// say nothing about NVLink. Hangs when the device cannot run the kernels of all ranks at the same time. Sets
/// environment variables, so call it before the communicator and other threads are created.
void PrepareForSharedDevice(Rank rank);

}  // namespace quire

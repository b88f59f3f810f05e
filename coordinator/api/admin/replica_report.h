#pragma once

#include <boost/asio/awaitable.hpp>

#include "comm/base/json_fwd.h"
#include "comm/topology/topology.h"
#include "coordinator/cluster/replicas/replica.h"
#include "coordinator/cluster/replicas/replica_snapshot.h"

namespace quire {

/// Takes a snapshot of a replica at one moment. The engine's thread only copies data. Call this function on the I/O
/// thread.
boost::asio::awaitable<ReplicaSnapshot> SnapshotOf(Replica& replica);

// The functions below use snapshots alone and may run on any thread.

/// Returns "serving", "paused", "recovering" or "failed".
const char* NameOf(ReplicaState state);
/// Returns the counts of the device pool and the host pool: {device: {total, free, used, cached}, host: {total, free,
/// used, cached}, block_size, blocks_per_state}.
Json PoolsJson(const PoolCounts& device, const PoolCounts& host, int block_size, int blocks_per_state);
/// Returns a replica's part of /admin/status.
Json StatusJson(const ReplicaSnapshot& replica);
/// Returns a replica's part of /admin/topology. The health of a rank is "ok", "late" (no heartbeat for a second),
/// "starting" (the group is being restarted) or "lost".
Json TopologyJson(const ReplicaSnapshot& replica);

}  // namespace quire

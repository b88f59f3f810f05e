#pragma once

#include <boost/asio/awaitable.hpp>

#include "comm/base/json_fwd.h"
#include "comm/topology/topology.h"
#include "coordinator/cluster/replicas/replica.h"
#include "coordinator/cluster/replicas/replica_snapshot.h"

namespace quire {

/// On the I/O thread: a replica as it is at one moment. The engine's thread takes it down and makes no text of it.
boost::asio::awaitable<ReplicaSnapshot> SnapshotOf(Replica& replica);

// What follows is made of snapshots alone, on any thread.

/// serving, paused, recovering or failed.
const char* NameOf(ReplicaState state);
/// Numbers of both pools: {device: {total, free, used, cached}, host: {total, free, used}, block_size}.
Json PoolsJson(const PoolCounts& device, const PoolCounts& host, int block_size, int blocks_per_state);
/// What /admin/status says of a replica.
Json StatusJson(const ReplicaSnapshot& replica);
/// What /admin/topology says of it: ranks with their health, which is ok; late (no beat for a second); starting (the
/// group is started again); lost.
Json TopologyJson(const ReplicaSnapshot& replica);

}  // namespace quire

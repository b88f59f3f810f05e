#pragma once

#include <vector>

#include "comm/model/model_files.h"
#include "comm/topology/topology.h"
#include "comm/wire/messages.h"
#include "coordinator/cluster/group/rank_info.h"

namespace quire {

/// Chooses kCpu or kCuda from the topology and the devices that the ranks reported. Throws Error when the topology's
/// backend or settings are impossible there.
BackendKind ChooseBackend(const Topology& topology, const std::vector<RankInfo>& ranks);

/// The assignment for all ranks, without the limits of steps and sequences and the ctrl port. `backend` comes from
/// ChooseBackend.
AssignMessage MakeAssignment(const Topology& topology, const ModelFiles& model, const std::vector<RankInfo>& ranks,
                             BackendKind backend);

}  // namespace quire

#pragma once

#include <vector>

#include "comm/model/model_files.h"
#include "comm/topology/topology.h"
#include "comm/wire/messages.h"
#include "coordinator/cluster/group/rank_info.h"

namespace quire {

/// Chooses kCpu or kCuda from the topology and the devices that the ranks reported. Throws Error when the topology's
/// backend or settings are impossible with these devices.
BackendKind ChooseBackend(const Topology& topology, const std::vector<RankInfo>& ranks);

/// Returns the number of layers of each stage of a pipeline: `stages` if it is not empty, otherwise a division that is
/// even by work; nothing for a single stage. Throws SettingsError for stages that the model does not allow.
std::vector<int32_t> StagesOf(const ModelFiles& model, int pipeline, const std::vector<int>& stages);

/// Returns the assignment for all ranks. The limits of steps and sequences and the ctrl port are not set yet. `backend`
/// comes from ChooseBackend.
AssignMessage MakeAssignment(const Topology& topology, const ModelFiles& model, const std::vector<RankInfo>& ranks,
                             BackendKind backend);

}  // namespace quire

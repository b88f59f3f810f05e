#pragma once

#include <vector>

#include "comm/model/model_files.h"
#include "comm/topology/topology.h"
#include "comm/wire/messages.h"
#include "coordinator/cluster/group/rank_info.h"

namespace quire {

/// What the ranks of a group compute on, by what the topology asks for and the ranks said as they joined; not kAuto.
/// Throws Error when they don't go together.
BackendKind ChooseBackend(const Topology& topology, const std::vector<RankInfo>& ranks);

/// What each of them is told to load, but for the limits of steps and sequences and the ctrl port. `backend` is what
/// ChooseBackend said.
AssignMessage MakeAssignment(const Topology& topology, const ModelFiles& model, const std::vector<RankInfo>& ranks,
                             BackendKind backend);

}  // namespace quire

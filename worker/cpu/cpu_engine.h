#pragma once

#include <memory>

#include "comm/collective/collective.h"
#include "comm/model/model_files.h"
#include "worker/engine/engine_sizes.h"
#include "worker/engine/rank_engine.h"
#include "worker/engine/rank_memory.h"

namespace quire {

/// The engine on this host's processor. Loads the weights; `collective` outlives it.
std::unique_ptr<RankEngine> MakeCpuEngine(const ModelFiles& files, const EngineSizes& sizes, Collective& collective);

/// What the engine of that rank would take; reads shapes alone. Throws Error as MakeCpuEngine does.
RankMemory MemoryOfCpuRank(const ModelFiles& files, const EngineSizes& sizes, Rank rank);

}  // namespace quire

#pragma once

#include <memory>

#include "comm/collective/collective.h"
#include "comm/collective/stage_link.h"
#include "comm/model/model_files.h"
#include "worker/engine/engine_sizes.h"
#include "worker/engine/rank_engine.h"
#include "worker/engine/rank_memory.h"

namespace quire {

/// Makes the CPU engine and loads its weights. `collective` must outlive the engine.
std::unique_ptr<RankEngine> MakeCpuEngine(const ModelFiles& files, const EngineSizes& sizes, Collective& collective);

/// Makes the CPU engine of a rank in a pipeline. `stage` joins the ranks of its stage; `link` leads to other stages.
/// `stage` and `link` must outlive the engine.
std::unique_ptr<RankEngine> MakeCpuStageEngine(const ModelFiles& files, const EngineSizes& sizes, Collective& stage,
                                               StageLink& link);

/// Returns the memory that the engine of `rank` would take, on rank 0 including a draft model or prediction layer.
/// Reads only the shapes of the weights. Throws Error for the same inputs as MakeCpuEngine.
RankMemory MemoryOfCpuRank(const ModelFiles& files, const EngineSizes& sizes, Rank rank);

}  // namespace quire

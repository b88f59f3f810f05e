#pragma once

#include "comm/model/model_files.h"
#include "comm/wire/working_memory.h"
#include "worker/engine/engine_sizes.h"
#include "worker/model/shard.h"

namespace quire {

/// Returns the memory that a rank of the CPU backend takes in addition to weights, KV blocks, swap space, and adapters
/// and grammars that arrive while it serves. `sizes`: the rank's own sizes; draft.files is null on ranks without a
/// guesser. The engine and `quire plan` both call this function.
WorkingMemory WorkingMemoryOf(const ModelFiles& files, const RankShard& shard, const EngineSizes& sizes);

}  // namespace quire

#pragma once

#include "comm/wire/messages.h"
#include "worker/engine/engine_sizes.h"

namespace quire {

/// Returns the engine sizes that the coordinator's Assign message demands, without the files of the draft model.
inline EngineSizes AssignedSizes(const AssignMessage& assign) {
  return {.block_size = assign.block_size,
          .max_step_tokens = assign.max_step_tokens,
          .max_running = assign.max_running,
          .max_model_len = assign.max_model_len,
          .threads = assign.threads,
          .shares = assign.shares,
          .compute = assign.compute,
          .stage_layers = assign.stage_layers,
          .draft = {.num_tokens = assign.draft.num_tokens,
                    .max_sequences = assign.draft.max_sequences,
                    .max_model_len = assign.draft.max_model_len},
          .draft_rows = assign.draft_rows};
}

}  // namespace quire

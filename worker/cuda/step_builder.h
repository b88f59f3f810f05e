#pragma once

#include <vector>

#include "worker/cuda/step_shape.h"
#include "worker/engine/sequence_table.h"

namespace quire {

/// Rows that a batch of `decodes` sequences is padded to, so that few graphs serve all batches.
int64_t PaddedRows(int64_t decodes);

/// What turns batches into arrays.
struct StepBuilderSizes {
  int block_size = 16;
  std::vector<int32_t> windows = {0};  // that layers have, at most kMaxWindows
  std::vector<int32_t> head_start;     // of the rank's kv heads
  kernels::DecodeWorkSize decode_work;
  int64_t prefill_tiles = 0;
  int32_t tile_rows = 0;
  bool decodes_as_chunks = false;  // fp32 has no decode kernel of its own
};

/// Fills the arrays of a step, all but what concerns drawing, and says what its launches look like. Decodes come first
/// in the batch. Blocks are counted on being in the device's table, one row per slot.
StepShape BuildStep(const std::vector<BatchMember>& batch, const SequenceTable& table, const StepBuilderSizes& sizes,
                    StepArrays& arrays);

}  // namespace quire

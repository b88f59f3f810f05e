#pragma once

#include <vector>

#include "worker/cuda/step_shape.h"
#include "worker/engine/sequence_table.h"

namespace quire {

/// Rows that a batch of `decodes` sequences is padded to, so that few graphs serve all batches.
int64_t PaddedRows(int64_t decodes);

/// What the longest context of a batch counts as for kernels whose launches depend on it: partitions in a power of two,
/// but no more than `most` tokens. So few graphs serve all contexts.
int32_t PaddedContext(int32_t longest, int32_t most);

/// What turns batches into arrays.
struct StepBuilderSizes {
  int block_size = 16;
  std::vector<AttentionSizes> attention;  // by kind, at most kMaxAttentionKinds
  bool decodes_as_chunks = false;         // fp32 has no planned decode kernel
  int32_t unplanned_context = 0;          // most tokens of a context, where decodes go through v1 or v2; else 0
  int64_t state_blocks = 0;               // that hold this rank's part of a sequence's state
};

/// What steps of at most so many sequences and tokens hold.
StepLimits MostOfSteps(const StepBuilderSizes& sizes, int64_t tokens, int64_t sequences);

/// What the step of this batch holds: steps of as many decodes and nothing else have the same.
StepLimits LimitsOfStep(const std::vector<BatchMember>& batch, const SequenceTable& table,
                        const StepBuilderSizes& sizes);

/// Fills the arrays of a step, which are within its limits, all but what concerns drawing, and says what its launches
/// look like. Decodes come first in the batch. Blocks are counted on being in the device's table, one row per slot.
StepShape BuildStep(const std::vector<BatchMember>& batch, const SequenceTable& table, const StepBuilderSizes& sizes,
                    const StepLimits& limits, StepArrays& arrays);

}  // namespace quire

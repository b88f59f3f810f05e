#pragma once

#include <vector>

#include "worker/cuda/step/step_shape.h"
#include "worker/engine/sequence_table.h"

namespace quire {

/// Returns the number of rows, with padding, for `decodes` sequences. With padding, a few graphs serve all batches.
int64_t PaddedRows(int64_t decodes);

/// Returns the longest context in tokens, with padding, for kernels whose launches depend on it: `longest` is rounded
/// up to a power of two times kDecodePartition, but at most to `most`. With padding, a few graphs serve all contexts.
int32_t PaddedContext(int32_t longest, int32_t most);

/// The settings that decide how batches become arrays.
struct StepBuilderSizes {
  int block_size = 16;
  std::vector<AttentionSizes> attention;  // indexed by kind, at most kMaxAttentionKinds
  bool decodes_as_chunks = false;         // true for fp32, which has no planned decode kernel
  int32_t unplanned_context = 0;          // most tokens of a context if decodes use v1 or v2; else 0
  int64_t state_blocks = 0;               // blocks of this rank's part of a sequence's state
};

/// Returns the limits of steps with at most `tokens` tokens and `sequences` sequences.
StepLimits MostOfSteps(const StepBuilderSizes& sizes, int64_t tokens, int64_t sequences);

/// Returns the limits of this batch's step. Steps with the same number of decodes and no chunks have the same limits.
StepLimits LimitsOfStep(const std::vector<BatchMember>& batch, const SequenceTable& table,
                        const StepBuilderSizes& sizes);

/// Fills a step's arrays, except for sampling, and returns the shape of its launches. Decodes must come first in the
/// batch, and the limits must be those of the batch. The block tables must already be on the device, one row per slot.
StepShape BuildStep(const std::vector<BatchMember>& batch, const SequenceTable& table, const StepBuilderSizes& sizes,
                    const StepLimits& limits, StepArrays& arrays);

}  // namespace quire

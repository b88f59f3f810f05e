#pragma once

#include <cstdint>
#include <vector>

#include "worker/cpu/step_inputs.h"

namespace quire {

/// A step's sequences, divided into parts for layers that attend only within chunks of the context (LayerSpec::chunk).
/// A part has the new tokens of one sequence that lie in one chunk, so the context of all its queries begins at the
/// same position. The attention kernel treats each part as a sequence.
struct ContextChunks {
  std::vector<int32_t> query_start;    // [parts + 1] first row of each part, then the number of rows
  std::vector<int32_t> context_len;    // [parts] number of the sequence's tokens up to the end of the part
  std::vector<int32_t> context_begin;  // [parts] first position of the part's chunk
  std::vector<int32_t> block_tables;   // [parts, table_stride of the inputs]

  int64_t num_parts() const { return static_cast<int64_t>(context_len.size()); }

  /// Refills the arrays from the step's sequences. The arrays' storage is reused between steps. `chunk`: tokens in a
  /// chunk of the context.
  void Cut(const StepInputs& inputs, int64_t chunk);
};

}  // namespace quire

#pragma once

#include <cstdint>
#include <vector>

#include "worker/cpu/step_inputs.h"

namespace quire {

/// A step's sequences in parts, for attention within chunks of the context (LayerSpec::chunk). A part has those of a
/// sequence's new tokens that lie in one chunk. So the same position is the first that all of its queries see. To
/// attention, parts are sequences.
struct ContextChunks {
  std::vector<int32_t> query_start;    // [parts + 1] first row of each part, then the number of rows
  std::vector<int32_t> context_len;    // [parts] number of the sequence's tokens up to the end of the part
  std::vector<int32_t> context_begin;  // [parts] first position of the part's chunk
  std::vector<int32_t> block_tables;   // [parts, table_stride of the inputs]

  int64_t num_parts() const { return static_cast<int64_t>(context_len.size()); }

  /// Refills the arrays from the step's sequences. Their storage is reused between steps.
  void Cut(const StepInputs& inputs, int64_t chunk);
};

}  // namespace quire

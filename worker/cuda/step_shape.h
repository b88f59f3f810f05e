#pragma once

#include <cstdint>

#include "worker/cuda/step_arrays.h"

namespace quire {

/// What a step looks like to whoever launches its kernels. Everything else is in arrays on the device, so that two
/// steps of the same shape are the same launches.
struct StepShape {
  int64_t num_rows = 0;     // tokens; for decodes alone, padded up to a size that graphs are kept for
  int64_t num_decodes = 0;  // the first rows, one each; padded likewise
  int64_t num_chunks = 0;   // sequences that own the other rows
  kernels::PrefillPlan chunk_work[kMaxAttentionKinds] = {};  // of the chunks' attention, by kind
  int64_t num_draws = 0;                                     // rows whose next token is drawn; without chunks, all rows
  bool combines[kMaxAttentionKinds] = {};                    // some decode's context is split
  int32_t max_context = 0;  // of decodes, at most, and rounded up (PaddedContext); 0 where they are planned
  bool keeps_rows = false;  // some chunk's rows are scored or pooled afterwards
};

/// What a step reads on the device.
struct StepOnDevice {
  const StepArrays& arrays;
  const int32_t* block_tables;  // [slots, table_stride]
  int64_t table_stride;
  const int32_t* last_tokens;  // [slots]
};

}  // namespace quire

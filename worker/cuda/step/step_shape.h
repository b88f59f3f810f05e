#pragma once

#include <cstdint>

#include "worker/cuda/step/step_arrays.h"

namespace quire {

/// The properties of a step on which its kernel launches depend. All other inputs are in device arrays, so two steps of
/// the same shape have the same launches.
struct StepShape {
  int64_t num_rows = 0;     // tokens; padded to a graph's size in steps of decodes alone
  int64_t num_decodes = 0;  // the first rows, one per decode; padded like num_rows
  int64_t num_chunks = 0;   // chunks: sequences whose tokens are the rows after the decodes
  kernels::PrefillPlan chunk_work[kMaxAttentionKinds] = {};  // plan of the chunks' attention, by kind
  int64_t num_draws = 0;                                     // rows to sample from; all rows in steps without chunks
  bool combines[kMaxAttentionKinds] = {};                    // indexed by kind: true if some decode's context is split
  int32_t max_context = 0;  // longest decode context, rounded up (PaddedContext); 0: decodes are planned
  bool keeps_rows = false;  // rows of some chunk are scored or pooled afterwards
};

/// The device arrays that a step reads.
struct StepOnDevice {
  const StepArrays& arrays;
  const int32_t* block_tables;  // [slots, table_stride]
  int64_t table_stride;
  const int32_t* last_tokens;  // [slots]
};

}  // namespace quire

#pragma once

#include <cstdint>
#include <vector>

#include "comm/base/group_cut.h"
#include "comm/topology/compute_settings.h"

namespace quire {

class ModelFiles;

/// The draft model or prediction layer that rank 0 runs beside its shard of the served model.
struct DraftSizes {
  const ModelFiles* files = nullptr;  // needed on rank 0 alone; they must outlive the engine
  int64_t vocab_size = 0;             // of the served model; the engine sets it
  int num_tokens = 0;                 // the most tokens of one draft; 0: no rank has a draft model
  int max_sequences = 0;              // the most sequences for which one step orders drafts
  int max_model_len = 0;              // tokens of the longest sequence that the draft model reads
};

/// The sizes and settings of an engine. They are equal on every rank of a group, except for draft.files.
struct EngineSizes {
  int block_size = 16;         // tokens per KV block
  int max_step_tokens = 0;     // most tokens of one step
  int max_running = 0;         // most sequences that run at the same time
  int max_model_len = 0;       // most tokens of one sequence
  int threads = 1;             // compute threads of the CPU engine
  std::vector<double> shares;  // each rank's share of the layers of its stage; one entry per rank of a stage
  ComputeSettings compute;
  std::vector<int32_t> stage_layers = {};  // see GroupCut
  DraftSizes draft = {};
  int draft_rows = 0;  // most rows of a step's sequences with drafts, in models with states

  GroupCut cut() const { return {shares, stage_layers}; }
};

}  // namespace quire

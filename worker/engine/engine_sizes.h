#pragma once

#include <cstdint>
#include <vector>

#include "comm/base/group_cut.h"
#include "comm/topology/compute_settings.h"

namespace quire {

/// The sizes and settings of an engine, equal on every rank of a group.
struct EngineSizes {
  int block_size = 16;         // tokens per KV block
  int max_step_tokens = 0;     // most tokens of one step
  int max_running = 0;         // most sequences that run at the same time
  int max_model_len = 0;       // most tokens of one sequence
  int threads = 1;             // compute threads of the CPU engine
  std::vector<double> shares;  // each rank's share of the layers of its stage; one entry per rank of a stage
  ComputeSettings compute;
  std::vector<int32_t> stage_layers = {};  // see GroupCut

  GroupCut cut() const { return {shares, stage_layers}; }
};

}  // namespace quire

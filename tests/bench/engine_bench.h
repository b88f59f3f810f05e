#pragma once

#include <string>
#include <vector>

#include "comm/model/model_files.h"
#include "comm/topology/topology.h"
#include "tests/bench/memory_trace.h"
#include "tests/bench/recovery_crossover.h"

namespace quire {

/// The result of one trace on real workers.
struct EngineRun {
  std::string policy;
  int block_size = 0;
  double seconds = 0, output_tokens_per_second = 0;
  double mean_batch = 0;  // mean number of sequences that hold blocks, over the steps
  int peak_batch = 0;
  double kv_waste = 0;      // slots without a computed token over slots in held blocks, both summed over the steps
  double block_saving = 0;  // saved by sharing: 1 - blocks held / table entries
  int64_t preemptions = 0;
};

/// Serves the trace twice on the topology's model with the same KV memory. All requests arrive at time 0. The first run
/// is paged. The second models contiguous reservation: it runs as many sequences together as the memory has regions of
/// max_model_len tokens, and counts one region per sequence. Kernels and block layout are the same, so only the memory
/// policy differs.
std::vector<EngineRun> RunTraceOnEngine(const Topology& topology, const ModelFiles& model,
                                        const std::vector<TraceRequest>& trace, int max_model_len, int64_t kv_tokens);

/// Serves each prompt of the trace with `width` parallel samples, and then with `width` beams.
std::vector<EngineRun> RunSharingOnEngine(const Topology& topology, const ModelFiles& model,
                                          const std::vector<TraceRequest>& trace, int max_model_len, int width);

/// Measures on the workers how long it takes to move blocks of 1 to 256 tokens to the host (moving them back is assumed
/// to take the same time), and to compute the same tokens.
std::vector<RecoveryPoint> MeasureRecovery(const Topology& topology, const ModelFiles& model);

std::string TableOf(const std::vector<EngineRun>& runs);
Json JsonOf(const std::vector<EngineRun>& runs);

}  // namespace quire

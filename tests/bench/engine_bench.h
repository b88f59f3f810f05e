#pragma once

#include <string>
#include <vector>

#include "comm/model/model_files.h"
#include "comm/topology/topology.h"
#include "tests/bench/memory_trace.h"
#include "tests/bench/recovery_crossover.h"

namespace quire {

/// One trace served by real workers.
struct EngineRun {
  std::string policy;
  int block_size = 0;
  double seconds = 0, output_tokens_per_second = 0;
  double mean_batch = 0;  // sequences that hold blocks, over the steps
  int peak_batch = 0;
  double kv_waste = 0;      // slots without a computed token over slots in held blocks, both summed over the steps
  double block_saving = 0;  // 1 - blocks held / table entries: what sharing saves
  int64_t preemptions = 0;
};

/// The trace, all at once, on the topology's model with the same KV memory twice: paged, and with as many sequences at
/// once as there are regions of max_model_len tokens in that memory, each counted as holding one (contiguous
/// reservation). The kernels and the block layout are the same, so that only the memory policy differs.
std::vector<EngineRun> RunTraceOnEngine(const Topology& topology, const ModelFiles& model,
                                        const std::vector<TraceRequest>& trace, int max_model_len, int64_t kv_tokens);

/// Each prompt of the trace with `width` parallel samples, and with `width` beams.
std::vector<EngineRun> RunSharingOnEngine(const Topology& topology, const ModelFiles& model,
                                          const std::vector<TraceRequest>& trace, int max_model_len, int width);

/// Moving blocks of 1 to 256 tokens to the host and back, against computing the same tokens, measured on the workers.
std::vector<RecoveryPoint> MeasureRecovery(const Topology& topology, const ModelFiles& model);

std::string TableOf(const std::vector<EngineRun>& runs);
Json JsonOf(const std::vector<EngineRun>& runs);

}  // namespace quire

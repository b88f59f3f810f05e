#pragma once

#include <memory>
#include <vector>

#include "comm/collective/collective.h"
#include "comm/messages.h"
#include "comm/model/model_files.h"
#include "kernels/stream.h"
#include "worker/model/llama.h"
#include "worker/sampler.h"
#include "worker/sequence_table.h"
#include "worker/step_inputs.h"

namespace quire {

struct ExecutorOptions {
  int block_size = 16;
  int max_step_tokens = 0;
  int max_running = 0;
  int max_model_len = 0;
  int threads = 1;
  std::vector<double> shares;  // one per rank
};

/// One rank's engine: its shard of the model, its KV blocks, and the sequences that run. Knows no sockets.
class StepExecutor {
 public:
  /// Loads the weights. `collective` outlives the executor.
  StepExecutor(const ModelFiles& files, const ExecutorOptions& options, Collective& collective);

  int64_t weight_bytes() const { return model_.weight_bytes(); }
  int64_t block_bytes() const { return KvCache::BlockBytes(config_, shard(), options_.block_size); }

  /// Reserves the KV blocks and, for swapping, those on the host (null blocks counted in; 0: none). Before the first
  /// step. Returns the nanoseconds that moving a block to the host or back takes; 0 without host blocks.
  int64_t AllocateBlocks(int num_blocks, int num_host_blocks = 0);

  /// Decodes and checks a plan, runs it, and reports. Throws Error on a plan that does not fit what came before.
  StepResult Execute(const Frame& plan_frame);

 private:
  void MoveBlocks(const StepPlan& plan);
  const RankShard& shard() const { return shards_[static_cast<size_t>(collective_.rank())]; }

  ModelConfig config_;
  ExecutorOptions options_;
  Collective& collective_;
  std::vector<RankShard> shards_;
  kernels::CpuStream stream_;
  Llama model_;
  Sampler sampler_;
  SequenceTable table_;
  StepInputs inputs_;
  std::unique_ptr<KvCache> cache_;
  HostMemory host_blocks_;  // [num_host_blocks, block floats]
  int num_host_blocks_ = 0;
  EpochId epoch_ = 0;
  StepId last_step_ = 0;
};

}  // namespace quire

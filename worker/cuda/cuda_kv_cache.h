#pragma once

#include "comm/model/model_config.h"
#include "comm/step_plan.h"
#include "kernels/cuda/paged_cache.h"
#include "worker/cuda/device.h"
#include "worker/shard.h"

namespace quire {

/// One rank's KV blocks on its device and, for swapping, on the host: [num_blocks][layers][keys, values] of
/// kernels::PagedCache's layout. A block of all layers is contiguous. Block 0 is the null block.
class CudaKvCache {
 public:
  struct Format {
    kernels::DType dtype;
    kernels::CacheType type;
    int64_t block_size;  // tokens: 8, 16, 32 or 64
  };

  CudaKvCache(const ModelConfig& config, const RankShard& shard, const Format& format, Device& device, int num_blocks,
              int num_host_blocks);

  static int64_t BlockBytes(const ModelConfig& config, const RankShard& shard, const Format& format);

  kernels::PagedCache Layer(int64_t layer) const;

  /// Room for the pairs of one launch of CopyBlocks.
  static constexpr int64_t kPairsAtOnce = 1024;

  /// Queues the moves, in order. `ids` is page-locked and stays as it is until they have run.
  void SwapOut(const std::vector<BlockCopyPair>& pairs);
  void SwapIn(const std::vector<BlockCopyPair>& pairs);
  void Copy(const std::vector<BlockCopyPair>& pairs);

  int num_blocks() const { return num_blocks_; }

 private:
  Device& device_;
  int64_t kv_heads_, head_dim_;
  Format format_;
  int64_t block_bytes_;
  int num_blocks_;
  DeviceMemory blocks_, host_blocks_;
};

}  // namespace quire

#pragma once

#include <span>
#include <vector>

#include "comm/model/model_spec.h"
#include "comm/wire/step_plan.h"
#include "kernels/cuda/paged_cache.h"
#include "worker/cuda/upload_buffer.h"
#include "worker/model/shard.h"

namespace quire {

struct CudaKvFormat {
  NumberType type;     // of CudaEngineOptions::dtype, or kFp8E4M3
  int64_t block_size;  // tokens: 8, 16, 32 or 64
};

/// One rank's KV blocks on its device and, for swapping, on the host: [num_blocks][layers][keys, values], each as
/// kernels::PagedCache has them. A block of all layers is contiguous. Block 0 is the null block.
class CudaKvCache {
 public:
  CudaKvCache(const ModelSpec& spec, const RankShard& shard, const CudaKvFormat& format, Device& device, int num_blocks,
              int num_host_blocks);

  static int64_t BlockBytes(const ModelSpec& spec, const RankShard& shard, const CudaKvFormat& format);

  kernels::PagedCache Layer(int64_t layer) const;

  // Queued, in the order of the pairs as far as that matters. `set`: of an UploadBuffer.
  void SwapOut(const std::vector<BlockCopyPair>& pairs);
  void SwapIn(const std::vector<BlockCopyPair>& pairs);
  void Copy(const std::vector<BlockCopyPair>& pairs, int set);
  /// What was queued from this set has run.
  void Reset(int set) { ids_.Reset(set); }

  int num_blocks() const { return num_blocks_; }
  std::span<std::byte> HostMemoryOf(BlockId block) const {
    return {HostBlock(block), static_cast<size_t>(block_bytes_)};
  }

 private:
  std::byte* Block(BlockId block) const { return blocks_.as() + block * block_bytes_; }
  std::byte* HostBlock(BlockId block) const { return host_blocks_.as() + block * block_bytes_; }
  void CopyTogether(std::span<const BlockCopyPair> pairs, int set);

  Device& device_;
  int64_t kv_heads_, head_dim_;
  CudaKvFormat format_;
  int64_t block_bytes_;
  int num_blocks_;
  DeviceMemory blocks_, host_blocks_;
  UploadBuffer<int32_t> ids_;  // pairs of source and destination
};

}  // namespace quire

#pragma once

#include <span>
#include <vector>

#include "comm/model/formats/kv_scales.h"
#include "comm/model/model_spec.h"
#include "comm/wire/step_plan.h"
#include "kernels/cuda/paged_cache.h"
#include "worker/cuda/device/upload_buffer.h"
#include "worker/model/kv_layout.h"

namespace quire {

struct CudaKvFormat {
  NumberType type;                    // CudaEngineOptions::dtype, or kFp8E4M3
  int64_t block_size;                 // tokens per block: 8, 16, 32 or 64
  std::vector<KvScales> scales = {};  // scales of an FP8 cache, by layer

  /// Returns the bytes that the keys, or the values, of one head take in a block.
  int64_t head_bytes(int64_t head_dim) const { return head_dim * block_size * ByteSize(type); }
};

/// One rank's KV blocks: [num_blocks] on its device and, for swapping, also on the host. KvLayout is the layout of a
/// block; kernels::PagedCache is the layout of keys and values. Block 0 is the null block.
class CudaKvCache {
 public:
  CudaKvCache(const ModelSpec& spec, const RankShard& shard, const CudaKvFormat& format, Device& device, int num_blocks,
              int num_host_blocks);

  static int64_t BlockBytes(const ModelSpec& spec, const RankShard& shard, const CudaKvFormat& format) {
    return LayoutOf(spec, shard, format).block_bytes;
  }

  kernels::PagedCache Layer(int64_t layer) const;

  // The functions below queue their work. If a pair depends on an earlier pair, they run in order. `set`: which of the
  // UploadBuffer's two staging sets to use.
  void SwapOut(const std::vector<BlockCopyPair>& pairs);
  void SwapIn(const std::vector<BlockCopyPair>& pairs);
  void Copy(const std::vector<BlockCopyPair>& pairs, int set);
  /// Lets Copy use the set again without waiting. Call this when the work that was queued with the set has run.
  void Reset(int set) { ids_.Reset(set); }

  int num_blocks() const { return num_blocks_; }
  /// Returns the address of block 0. A sequence's state uses the bytes of some blocks regardless of the KV layout.
  std::byte* pool() const { return blocks_.as(); }
  int64_t block_bytes() const { return layout_.block_bytes; }
  std::span<std::byte> MemoryOf(BlockId block) const {
    return {Block(block), static_cast<size_t>(layout_.block_bytes)};
  }
  std::span<std::byte> HostMemoryOf(BlockId block) const {
    return {HostBlock(block), static_cast<size_t>(layout_.block_bytes)};
  }

 private:
  static KvLayout LayoutOf(const ModelSpec& spec, const RankShard& shard, const CudaKvFormat& format);
  std::byte* Block(BlockId block) const { return blocks_.as() + block * layout_.block_bytes; }
  std::byte* HostBlock(BlockId block) const { return host_blocks_.as() + block * layout_.block_bytes; }
  void CopyTogether(std::span<const BlockCopyPair> pairs, int set);

  Device& device_;
  CudaKvFormat format_;
  KvLayout layout_;
  int num_blocks_;
  DeviceMemory blocks_, host_blocks_;
  UploadBuffer<int32_t> ids_;  // pairs of source and destination
};

}  // namespace quire

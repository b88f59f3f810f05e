#include "worker/cuda/decoder/cuda_kv_cache.h"

#include <algorithm>

#include "kernels/block_copy.h"

namespace quire {

namespace {

constexpr int64_t kPairsAtOnce = 4096;

bool Contains(std::span<const BlockCopyPair> pairs, BlockId source) {
  return std::any_of(pairs.begin(), pairs.end(), [&](const BlockCopyPair& pair) { return pair.source == source; });
}

}  // namespace

KvLayout CudaKvCache::LayoutOf(const ModelSpec& spec, const RankShard& shard, const CudaKvFormat& format) {
  return {spec, shard, [&](int64_t head_dim) { return format.head_bytes(head_dim); }, true};
}

CudaKvCache::CudaKvCache(const ModelSpec& spec, const RankShard& shard, const CudaKvFormat& format, Device& device,
                         int num_blocks, int num_host_blocks)
    : device_(device),
      format_(format),
      layout_(LayoutOf(spec, shard, format)),
      num_blocks_(num_blocks),
      blocks_(device.Allocate(num_blocks * layout_.block_bytes, "the KV cache")),
      host_blocks_(device.AllocateHost(num_host_blocks * layout_.block_bytes, "the swap space")),
      ids_(device, 2 * kPairsAtOnce, "copies of KV blocks") {}

kernels::PagedCache CudaKvCache::Layer(int64_t layer) const {
  const KvLayout::Layer& l = layout_.layer(layer);
  const int64_t stride = layout_.block_bytes / ByteSize(format_.type);
  const KvScales scales =
      format_.type == NumberType::kFp8E4M3 ? format_.scales[static_cast<size_t>(layer)] : KvScales();
  return {blocks_.as() + l.keys_at,
          blocks_.as() + l.values_at,
          stride,
          stride,
          static_cast<int32_t>(l.kv_heads),
          static_cast<int32_t>(l.head_dim),
          static_cast<int32_t>(format_.block_size),
          format_.type,
          scales.key,
          l.values_at == l.keys_at ? scales.key : scales.value};  // latents are their own values
}

void CudaKvCache::SwapOut(const std::vector<BlockCopyPair>& pairs) {
  for (const auto& [device, host] : pairs) device_.CopyToHost(HostBlock(host), Block(device), layout_.block_bytes);
}

void CudaKvCache::SwapIn(const std::vector<BlockCopyPair>& pairs) {
  for (const auto& [host, device] : pairs) device_.CopyToDevice(Block(device), HostBlock(host), layout_.block_bytes);
}

/// Copies pairs in as few launches as possible. The pairs of one launch run in parallel. A plan may copy a block and
/// then overwrite it, so a pair with a destination that occurs in an earlier pair begins a new launch.
void CudaKvCache::Copy(const std::vector<BlockCopyPair>& pairs, int set) {
  size_t begin = 0;
  for (size_t i = 0; i <= pairs.size(); ++i) {
    const std::span<const BlockCopyPair> together(pairs.data() + begin, i - begin);
    const bool full = static_cast<int64_t>(together.size()) == kPairsAtOnce;
    if (i < pairs.size() && !full && !Contains(together, pairs[i].destination)) continue;
    CopyTogether(together, set);
    begin = i;
  }
}

void CudaKvCache::CopyTogether(std::span<const BlockCopyPair> pairs, int set) {
  if (pairs.empty()) return;
  static_assert(sizeof(BlockCopyPair) == 2 * sizeof(int32_t));
  const std::span ids(reinterpret_cast<const int32_t*>(pairs.data()), 2 * pairs.size());
  kernels::BlockCopy(device_.stream(), {blocks_.as(), blocks_.as(), layout_.block_bytes, ids_.Send(ids, set),
                                        static_cast<int64_t>(pairs.size())});
}

}  // namespace quire

#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "comm/model/model_files.h"
#include "kernels/low_rank.h"
#include "worker/engine/memory.h"
#include "worker/model/shard.h"

namespace quire {

/// The products of a layer that adapters may add to. Roles of one product share x and lie side by side in y.
enum class LayerProduct : uint8_t { kQkv, kAttentionOut, kMlpIn, kDown };
inline constexpr size_t kNumLayerProducts = 4;

/// The weights of a product, in the order in which ModelWeights holds them.
std::vector<Role> RolesOf(const ModelFiles& files, int64_t layer, LayerProduct product);

/// A rank's shards of the model's LoRA adapters, in fp32. Both matrices follow the rank's part of the base matrix: a
/// product whose rows are split has its rows of b; one whose columns are split has its columns of a, and the sum over
/// the ranks that the base product needs sums up the adapter's, too.
class CpuAdapters {
 public:
  CpuAdapters(const ModelFiles& files, const RankShard& shard) : CpuAdapters(files, shard, true) {}

  /// The value of bytes() without reading a matrix.
  static int64_t Bytes(const ModelFiles& files, const RankShard& shard) {
    return CpuAdapters(files, shard, false).bytes();
  }

  int count() const { return static_cast<int>(parts_.size()); }
  int64_t bytes() const { return bytes_; }
  /// Returns the parts that adapter number `adapter` (1 .. count()) adds to the product; none: nothing on this rank.
  const std::vector<kernels::LowRankPart>& Parts(int adapter, int64_t layer, LayerProduct product) const {
    return parts_[static_cast<size_t>(adapter - 1)]
                 [static_cast<size_t>(layer) * kNumLayerProducts + static_cast<size_t>(product)];
  }

 private:
  CpuAdapters(const ModelFiles& files, const RankShard& shard, bool reads);
  void Load(const ModelFiles& files, const RankShard& shard, const AdapterMatrix& matrix,
            std::vector<std::vector<kernels::LowRankPart>>& products);
  /// Packs the rows and columns of a matrix, multiplied by `scale`.
  kernels::PackedWeight Pack(const Tensor& tensor, const std::vector<int64_t>& rows, const std::vector<int64_t>& cols,
                             float scale);

  bool reads_;
  std::vector<std::vector<std::vector<kernels::LowRankPart>>> parts_;  // [adapters][layers * products]
  std::deque<HostMemory> storage_;
  int64_t bytes_ = 0;
};

}  // namespace quire

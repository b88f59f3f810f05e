#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "comm/model/model_files.h"
#include "kernels/low_rank.h"
#include "worker/engine/adapter_shard.h"
#include "worker/engine/memory.h"
#include "worker/model/shard.h"

namespace quire {

/// The products of a layer that adapters may add to. Roles of one product share x and lie side by side in y.
enum class LayerProduct : uint8_t { kQkv, kAttentionOut, kMlpIn, kDown };
inline constexpr size_t kNumLayerProducts = 4;

/// Returns the roles of a product's weights, in the order in which ModelWeights holds the weights.
std::vector<Role> RolesOf(const ModelFiles& files, int64_t layer, LayerProduct product);

/// A rank's shard of a LoRA adapter, in fp32. Both matrices follow the rank's part of the base matrix: a product whose
/// rows are split has its rows of b; one whose columns are split has its columns of a, and the sum over the ranks that
/// the base product needs sums up the adapter's, too.
class CpuAdapter final : public AdapterShard {
 public:
  /// `reads`: false to count the memory without reading the matrices.
  CpuAdapter(const ModelFiles& base, const AdapterFiles& adapter, const RankShard& shard, bool reads = true);

  int64_t bytes() const override { return bytes_; }
  /// Returns the parts that the adapter adds to the product on this rank; empty: none.
  const std::vector<kernels::LowRankPart>& Parts(int64_t layer, LayerProduct product) const {
    return parts_[static_cast<size_t>(layer) * kNumLayerProducts + static_cast<size_t>(product)];
  }

 private:
  void Load(const ModelFiles& base, const RankShard& shard, const AdapterMatrix& matrix);
  /// Packs the rows and columns of a matrix, multiplied by `scale`.
  kernels::PackedWeight Pack(const Tensor& tensor, const std::vector<int64_t>& rows, const std::vector<int64_t>& cols,
                             float scale);

  bool reads_;
  std::vector<std::vector<kernels::LowRankPart>> parts_;  // [layers * products]
  std::deque<HostMemory> storage_;
  int64_t bytes_ = 0;
};

/// A rank's LoRA adapters by their numbers (AddedSequence::adapter): adapters of the model's files, and adapters loaded
/// while serving.
class CpuAdapters {
 public:
  CpuAdapters(const ModelFiles& files, const RankShard& shard);

  /// Returns the bytes that bytes() would return, without reading a matrix.
  static int64_t Bytes(const ModelFiles& files, const RankShard& shard);

  /// Returns the number of adapters of the model's files.
  int num_listed() const { return num_listed_; }
  int64_t bytes() const;
  const CpuAdapter& at(int number) const { return *adapters_.at(number); }
  /// Sets a later adapter; null: drops it.
  void Set(int number, std::shared_ptr<const CpuAdapter> adapter);

 private:
  std::map<int, std::shared_ptr<const CpuAdapter>> adapters_;
  int num_listed_;
};

}  // namespace quire

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "comm/model/model_files.h"
#include "kernels/low_rank.h"
#include "worker/cpu/adapter_storage.h"
#include "worker/cpu/adapter_tables.h"
#include "worker/engine/adapter_shard.h"
#include "worker/model/shard.h"

namespace quire {

/// The products that adapters may add to. Weights of one product share x and lie side by side in y. The last two belong
/// to no layer and are called with layer 0.
enum class AdaptedProduct : uint8_t {
  kQkv,
  kAttentionOut,
  kMixerIn,
  kMixerOut,
  kMlpIn,
  kDown,
  kRouter,
  kSharedIn,
  kSharedDown,
  kExpertIn,
  kExpertDown,
  kInputGate,
  kInputOut,
  kInputProjection,
  kHead,
};
inline constexpr size_t kNumAdaptedProducts = 15;

/// Returns the roles of a product's weights, in the order in which ModelWeights holds the weights.
std::vector<Role> RolesOf(const ModelFiles& files, int64_t layer, AdaptedProduct product);

/// A rank's shard of a LoRA adapter, in its file's type. Both matrices follow the rank's part of the base matrix: a
/// product whose rows are split has its rows of b; one whose columns are split has its columns of a, and the sum over
/// the ranks that the base product needs sums up the adapter's, too.
class CpuAdapter final : public AdapterShard {
 public:
  using Parts = std::vector<kernels::LowRankPart>;

  /// `reads`: false to count the memory without reading the matrices.
  CpuAdapter(const ModelFiles& base, const AdapterFiles& adapter, const RankShard& shard, bool reads = true);

  int64_t bytes() const override { return storage_.bytes(); }
  /// Returns the parts that the adapter adds to the product; none: nothing on this rank. Experts are counted from the
  /// rank's first one.
  const Parts& PartsOf(int64_t layer, AdaptedProduct product, int64_t expert = 0) const;
  const AdapterTables& tables() const { return tables_; }

 private:
  void Load(const ModelFiles& base, const ModelSpec& layout, const RankShard& shard, const AdapterMatrix& matrix);

  AdapterStorage storage_;
  int64_t layers_;
  std::vector<std::vector<Parts>> parts_;  // [layers * products], then [experts of the rank] or [1]; [0]: none
  AdapterTables tables_;
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

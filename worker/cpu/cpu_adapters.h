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
#include "worker/model/weight_plan.h"

namespace quire {

/// A rank's shard of a LoRA adapter, in the type of the adapter's file. Both matrices are split like the base matrix:
/// where the base matrix is split by rows, the rank has these rows of b; where it is split by columns, the rank has
/// these columns of a. The sum over the ranks that the base product needs includes the adapter's product.
class CpuAdapter final : public AdapterShard {
 public:
  using Parts = std::vector<kernels::LowRankPart>;

  /// `reads`: false to count the memory without reading the matrices.
  CpuAdapter(const ModelFiles& base, const AdapterFiles& adapter, const RankShard& shard, bool reads = true);

  int64_t bytes() const override { return storage_.bytes(); }
  /// Returns the parts that the adapter adds to the product with the matrices of a place; no parts: the adapter adds
  /// nothing on this rank. Places outside layers have layer 0. Experts are counted from the rank's first expert.
  const Parts& PartsOf(int64_t layer, WeightPlace product, int64_t expert = 0) const;
  const AdapterTables& tables() const { return tables_; }

 private:
  void Load(const ModelFiles& base, const ModelSpec& layout, const RankShard& shard, const AdapterMatrix& matrix);

  AdapterStorage storage_;
  int64_t layers_;
  std::vector<std::vector<Parts>> parts_;  // [layers * places][experts of the rank, or 1]; [0] is empty: no parts
  AdapterTables tables_;
};

/// A rank's LoRA adapters by their numbers (AddedSequence::adapter): the adapters listed with the model's files, and
/// the adapters loaded while the server runs.
class CpuAdapters {
 public:
  CpuAdapters(const ModelFiles& files, const RankShard& shard);

  /// Returns the bytes that bytes() would return, without reading a matrix.
  static int64_t Bytes(const ModelFiles& files, const RankShard& shard);

  /// Returns the number of adapters listed with the model's files.
  int num_listed() const { return num_listed_; }
  int64_t bytes() const;
  const CpuAdapter& at(int number) const { return *adapters_.at(number); }
  /// Sets an adapter loaded while the server runs; null: drops the adapter.
  void Set(int number, std::shared_ptr<const CpuAdapter> adapter);

 private:
  std::map<int, std::shared_ptr<const CpuAdapter>> adapters_;
  int num_listed_;
};

}  // namespace quire

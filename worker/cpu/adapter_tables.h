#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "comm/model/model_files.h"
#include "worker/cpu/adapter_storage.h"
#include "worker/model/shard.h"

namespace quire {

/// The changes that a LoRA adapter makes to the embedding and to the output head. A rank has all changes of the
/// embedding if its stage computes embeddings, and in the last stage the changes of its own rows of the head.
class AdapterTables {
 public:
  AdapterTables(const ModelFiles& base, const AdapterFiles& adapter, const RankShard& shard, AdapterStorage& storage);

  bool changes_embedding() const { return embedding_.data != nullptr || !rows_.empty() || rank_ > 0; }
  /// Applies the adapter's change to `row` [hidden], which holds the base model's embedding of the token, multiplied by
  /// `scale`.
  void Embed(TokenId token, float scale, float* row) const;

  /// Returns the adapter's own output head: [the rank's vocabulary, hidden]. It has no data if the adapter uses the
  /// base model's head.
  const kernels::PackedWeight& head() const { return head_; }
  /// Returns the rows of the output head that the adapter replaces, one for each of head_columns(): [columns, hidden].
  const kernels::PackedWeight& head_rows() const { return head_rows_; }
  /// Returns the columns of the rank's logits that head_rows() computes.
  const std::vector<int64_t>& head_columns() const { return head_columns_; }

 private:
  void LoadEmbedding(const AdapterTable& table, AdapterStorage& storage);
  void LoadHead(const AdapterTable& table, const Range& vocab, AdapterStorage& storage);

  kernels::Weight embedding_;  // [vocabulary, hidden]; no data: the base model's embedding
  std::unordered_map<TokenId, int64_t> rows_;
  kernels::Weight row_table_;  // [rows_, hidden]
  int64_t rank_ = 0, hidden_ = 0;
  const float* a_ = nullptr;  // [vocabulary, rank]
  const float* b_ = nullptr;  // [rank, hidden], multiplied by LoRA's factor
  kernels::PackedWeight head_, head_rows_;
  std::vector<int64_t> head_columns_;
};

}  // namespace quire

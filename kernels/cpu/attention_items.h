#pragma once

#include <vector>

#include "kernels/cpu/isa/table.h"

namespace quire::kernels {

/// Cuts a call of paged attention into items for one KV head each, which threads take one by one. Prompts are cut into
/// tiles of queries. Sequences with few queries may have block tables that begin with the same blocks (a shared
/// prefix). Such sequences are in one item, as long as every thread still has work. The storage is reused between
/// calls.
class AttentionItems {
 public:
  void Cut(const PagedAttentionParams& params, int num_threads);

  const std::vector<AttentionItem>& list() const { return items_; }

 private:
  void AddItems(const PagedAttentionParams& params, int64_t first_member, int64_t num_members, int64_t shared_blocks);
  void SortByTables(const PagedAttentionParams& params);
  void AddGroups(const PagedAttentionParams& params, int64_t most_queries);

  std::vector<AttentionMember> members_;
  std::vector<int64_t> few_;               // sequences with few queries, in the order of their tables
  std::vector<int64_t> shared_with_next_;  // number of leading blocks that few_[i] and few_[i + 1] share
  std::vector<AttentionItem> items_;
};

}  // namespace quire::kernels

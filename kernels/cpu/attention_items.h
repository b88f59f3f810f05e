#pragma once

#include <vector>

#include "kernels/cpu/isa/table.h"

namespace quire::kernels {

/// A paged attention call cut into items: prompts into tiles of queries; sequences of few queries whose tables begin
/// with the same blocks (a prefix that the cache shares) together, as far as that leaves work for every thread.
/// Storage is kept between calls.
class AttentionItems {
 public:
  void Cut(const PagedAttentionParams& params, int num_threads);

  const std::vector<AttentionItem>& list() const { return items_; }

 private:
  void AddItems(const PagedAttentionParams& params, int64_t first_member, int64_t num_members, int64_t shared_blocks);
  void SortByTables(const PagedAttentionParams& params);
  void AddGroups(const PagedAttentionParams& params, int64_t most_queries);

  std::vector<AttentionMember> members_;
  std::vector<int64_t> few_;               // sequences of few queries, in the order of their tables
  std::vector<int64_t> shared_with_next_;  // blocks that few_[i] and few_[i + 1] begin with
  std::vector<AttentionItem> items_;
};

}  // namespace quire::kernels

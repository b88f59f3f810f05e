#include "kernels/cpu/attention_items.h"

#include <algorithm>
#include <span>

#include "kernels/check.h"

namespace quire::kernels {

namespace {

constexpr int64_t kFewQueries = kAttentionTile / 2;
constexpr int64_t kWorthSharing = 64;  // number of common slots from which on a shared item saves time

int64_t NumQueries(const PagedAttentionParams& p, int64_t sequence) {
  return p.query_start[sequence + 1] - p.query_start[sequence];
}

/// Returns the leading blocks of the sequence that lie entirely before its queries.
std::span<const int32_t> BlocksBefore(const PagedAttentionParams& p, int64_t sequence) {
  const int64_t before = p.context_len[sequence] - NumQueries(p, sequence);
  return {p.block_tables + sequence * p.table_stride, static_cast<size_t>(before / p.cache.block_size)};
}

}  // namespace

void AttentionItems::AddItems(const PagedAttentionParams& p, int64_t first_member, int64_t num_members,
                              int64_t shared_blocks) {
  for (int64_t head = 0; head < p.cache.num_kv_heads; ++head)
    items_.push_back({members_.data() + first_member, num_members, shared_blocks, head});
}

void AttentionItems::SortByTables(const PagedAttentionParams& p) {
  std::ranges::sort(few_, [&](int64_t a, int64_t b) {
    const auto left = BlocksBefore(p, a), right = BlocksBefore(p, b);
    const auto [l, r] = std::ranges::mismatch(left, right);
    if (l == left.end() || r == right.end()) return left.size() != right.size() ? left.size() < right.size() : a < b;
    return *l < *r;
  });
  shared_with_next_.assign(few_.size(), 0);
  for (size_t i = 0; i + 1 < few_.size(); ++i) {
    const auto left = BlocksBefore(p, few_[i]), right = BlocksBefore(p, few_[i + 1]);
    shared_with_next_[i] = std::ranges::mismatch(left, right).in1 - left.begin();
  }
}

/// Groups sequences that share leading blocks. The sequences are ordered by block table, so neighbours share the most;
/// a group shares as many blocks as its least similar neighbours. A new member may lower the number of blocks that the
/// earlier members share. A sequence joins a group only if the group then saves at least as many reads of blocks as
/// before, shares at least kWorthSharing slots, and has at most `most_queries` queries. A sequence starts no group if
/// it shares fewer blocks with the next sequence than that sequence shares with its own successor.
void AttentionItems::AddGroups(const PagedAttentionParams& p, int64_t most_queries) {
  SortByTables(p);
  for (size_t i = 0; i < few_.size();) {
    const auto first_member = static_cast<int64_t>(members_.size());
    int64_t shared = std::ssize(BlocksBefore(p, few_[i])), queries = 0, count = 0;
    for (; i < few_.size(); ++i, ++count) {
      const int64_t sequence = few_[i], more = NumQueries(p, sequence);
      if (count > 0) {
        const int64_t common = std::min(shared, shared_with_next_[i - 1]);
        const bool saves = common * p.cache.block_size >= kWorthSharing && common * count >= shared * (count - 1) &&
                           (count > 1 || common >= shared_with_next_[i]);
        if (!saves || queries + more > most_queries) break;
        shared = common;
      }
      queries += more;
      members_.push_back({sequence, p.query_start[sequence], more});
    }
    AddItems(p, first_member, count, count > 1 ? shared : 0);
  }
}

void AttentionItems::Cut(const PagedAttentionParams& p, int num_threads) {
  members_.clear();
  few_.clear();
  items_.clear();
  // The memory is reserved for the largest possible number of members, because items point into members_.
  members_.reserve(static_cast<size_t>(p.num_sequences + p.query_start[p.num_sequences]));
  int64_t few_queries = 0, group = 1;
  for (int64_t head = 0; head < p.cache.num_kv_heads; ++head)
    group = std::max<int64_t>(group, p.head_start[head + 1] - p.head_start[head]);
  const int64_t tile = std::max<int64_t>(1, kPrefillRows / group);  // number of queries per tile
  for (int64_t s = 0; s < p.num_sequences; ++s) {
    const int64_t queries = NumQueries(p, s);
    QUIRE_KERNEL_CHECK(p.context_len[s] >= queries);
    QUIRE_KERNEL_CHECK((p.context_len[s] + p.cache.block_size - 1) / p.cache.block_size <= p.table_stride);
    const bool sees_all = p.window == 0 && p.context_begin == nullptr && !p.both_ways;
    if (queries > 0 && queries <= std::min(kFewQueries, tile) && sees_all) {
      few_.push_back(s);
      few_queries += queries;
      continue;
    }
    for (int64_t q = p.query_start[s]; q < p.query_start[s + 1]; q += tile) {
      members_.push_back({s, q, std::min<int64_t>(tile, p.query_start[s + 1] - q)});
      AddItems(p, static_cast<int64_t>(members_.size()) - 1, 1, 0);
    }
  }
  const int64_t fair = num_threads == 1 ? kAttentionTile : few_queries * p.cache.num_kv_heads / (2 * num_threads);
  AddGroups(p, std::clamp<int64_t>(fair, 1, kAttentionTile));
}

}  // namespace quire::kernels

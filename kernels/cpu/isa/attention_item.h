#pragma once

#include <cstdint>

namespace quire::kernels {

/// Queries of one sequence, all or some.
struct AttentionMember {
  int64_t sequence;
  int64_t first_query;  // row in `queries`
  int64_t num_queries;  // at least 1
};

/// What one thread attends to at a time: a kv head and some queries, at most kAttentionTile in all. Those of several
/// sequences go through the blocks that all of them begin with together, so that these are read once.
struct AttentionItem {
  const AttentionMember* members;
  int64_t num_members;
  int64_t shared_blocks;  // every query stands behind them; 0 where there is one member
  int64_t kv_head;
};
inline constexpr int64_t kAttentionTile = 16;
/// A prompt's items have this many rows, a query head of a query each, or a single query that has more heads: whole
/// blocks of any instruction set, over which the widening of keys and values is shared out.
inline constexpr int64_t kPrefillRows = 192;

}  // namespace quire::kernels

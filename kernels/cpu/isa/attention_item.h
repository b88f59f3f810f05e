#pragma once

#include <cstdint>

namespace quire::kernels {

/// A member of an attention item: some or all queries of one sequence.
struct AttentionMember {
  int64_t sequence;
  int64_t first_query;  // row in `queries`
  int64_t num_queries;  // number of queries, at least 1
};

/// One thread's unit of attention work: a KV head, and either queries of a prompt or at most kAttentionTile queries of
/// sequences with few queries. If several sequences begin with the same blocks, their queries visit these blocks
/// together, so that the blocks are read once.
struct AttentionItem {
  const AttentionMember* members;
  int64_t num_members;
  int64_t shared_blocks;  // blocks that all members share and that precede every query; 0 with one member
  int64_t kv_head;
};
inline constexpr int64_t kAttentionTile = 16;
/// The most rows of a prompt's item; a row is one query head of one query. (A single query with more heads makes a
/// larger item.) 192 is a multiple of the row block of every instruction set, and enough rows share the cost of
/// widening keys and values.
inline constexpr int64_t kPrefillRows = 192;

}  // namespace quire::kernels

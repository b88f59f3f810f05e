#pragma once

#include "kernels/cpu/isa/attention_item.h"
#include "kernels/cpu/isa/table.h"

// Functions about the queries of an attention item: their rows, their positions, and the positions that each query
// sees.
namespace quire::kernels::QUIRE_ISA {

/// Returns the number of positions that a query sees. Without a window, returns more positions than any context has.
inline int64_t WindowOf(const PagedAttentionParams& p) {
  constexpr int64_t kNoWindow = int64_t{1} << 30;
  return p.window > 0 ? Least(p.window, kNoWindow) : kNoWindow;
}

/// Returns the number of positions after itself that a query sees, as far as the context has them; 0 without both_ways.
inline int64_t AheadOf(const PagedAttentionParams& p) { return p.both_ways ? WindowOf(p) - 1 : 0; }

/// Returns the position, in its sequence, of the query in row `query` of all queries. The query must belong to
/// `sequence`.
inline int64_t PositionOf(const PagedAttentionParams& p, int64_t sequence, int64_t query) {
  if (p.first_position != nullptr) return p.first_position[sequence] + (query - p.query_start[sequence]);
  return p.context_len[sequence] - (p.query_start[sequence + 1] - query);
}

/// Calls use(row, sequence, query, head) for every row of the item.
template <class Use>
void EachRow(const PagedAttentionParams& p, const AttentionItem& item, const Use& use) {
  int64_t row = 0;
  for (const AttentionMember* m = item.members; m != item.members + item.num_members; ++m) {
    for (int64_t query = m->first_query; query < m->first_query + m->num_queries; ++query) {
      for (int64_t head = p.head_start[item.kv_head]; head < p.head_start[item.kv_head + 1]; ++head, ++row)
        use(row, m->sequence, query, head);
    }
  }
}

}  // namespace quire::kernels::QUIRE_ISA

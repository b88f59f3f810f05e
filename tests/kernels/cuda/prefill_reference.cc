#include "kernels/cuda/prefill_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cuda/decode_reference.h"
#include "tests/kernels/numbers.h"

namespace quire::kernels::reference {

namespace {

struct Query {
  int64_t row, head, kv_head;
  int64_t first, position;  // it sees [first, position]
  const int32_t* table;
};

std::vector<double> Weights(const PrefillAttentionParams& p, const Query& q) {
  const PagedCache& c = p.cache;
  std::vector<double> weights;
  for (int64_t t = q.first; t <= q.position; ++t) {
    double score = 0;
    for (int64_t d = 0; d < c.head_size; ++d) {
      const int64_t at = KeyIndex(c, q.table[t / c.block_size], q.kv_head, t % c.block_size, d);
      score += ReadNumber(p.queries, p.dtype, q.row * p.query_stride + q.head * c.head_size + d) *
               ReadNumber(c.keys, c.type, at) * c.k_scale;
    }
    score *= p.scale;
    if (p.soft_cap > 0) score = p.soft_cap * std::tanh(score / p.soft_cap);
    if (p.alibi_slopes != nullptr) score += p.alibi_slopes[q.head] * static_cast<double>(t - q.position);
    weights.push_back(score);
  }
  const double max = *std::max_element(weights.begin(), weights.end());
  double sum = p.sinks == nullptr ? 0 : std::exp(p.sinks[q.head] - max);
  for (double& w : weights) sum += w = std::exp(w - max);
  for (double& w : weights) w /= sum;
  return weights;
}

void Attend(const PrefillAttentionParams& p, const Query& q, double* out, double* spread) {
  const PagedCache& c = p.cache;
  const std::vector<double> weights = Weights(p, q);
  for (int64_t d = 0; d < c.head_size; ++d) {
    double squares = 0;
    out[d] = 0;
    for (int64_t t = q.first; t <= q.position; ++t) {
      const int64_t at = ValueIndex(c, q.table[t / c.block_size], q.kv_head, t % c.block_size, d);
      const double part = weights[static_cast<size_t>(t - q.first)] * ReadNumber(c.values, c.type, at) * c.v_scale;
      out[d] += part, squares += part * part;
    }
    if (spread != nullptr) spread[d] = std::sqrt(squares);
  }
}

}  // namespace

std::vector<double> PrefillAttention(const PrefillAttentionParams& p, int64_t num_seqs, std::vector<double>* spreads) {
  const int64_t num_heads = p.head_start[p.cache.num_kv_heads], size = p.cache.head_size;
  std::vector<double> out(static_cast<size_t>(p.query_start[num_seqs] * num_heads * size),
                          std::numeric_limits<double>::quiet_NaN());
  if (spreads != nullptr) spreads->assign(out.size(), 0);
  for (int64_t s = 0; s < num_seqs; ++s) {
    if (p.context_len[s] == 0) continue;
    const int32_t* table = p.block_tables + (p.table_rows != nullptr ? p.table_rows[s] : s) * p.table_stride;
    for (int64_t row = p.query_start[s]; row < p.query_start[s + 1]; ++row) {
      const int64_t position = p.context_len[s] - p.query_start[s + 1] + row;
      const int64_t first = p.window > 0 ? std::max<int64_t>(position - p.window + 1, 0) : 0;
      for (int64_t g = 0; g < p.cache.num_kv_heads; ++g) {
        for (int64_t h = p.head_start[g]; h < p.head_start[g + 1]; ++h) {
          const auto at = static_cast<size_t>((row * num_heads + h) * size);
          Attend(p, {row, h, g, first, position, table}, &out[at], spreads == nullptr ? nullptr : &(*spreads)[at]);
        }
      }
    }
  }
  return out;
}

}  // namespace quire::kernels::reference

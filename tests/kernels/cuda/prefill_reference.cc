#include "kernels/cuda/prefill_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cuda/decode_reference.h"
#include "tests/kernels/numbers.h"

namespace quire::kernels::reference {

namespace {

struct Query {
  int64_t row, head;
  int64_t first, position;  // the query sees the positions [first, position]
};

std::vector<double> Weights(const PrefillAttentionParams& p, const Query& q, const HeadOfSequence& seen) {
  const int64_t size = p.cache.head_size;
  std::vector<double> weights, query;
  for (int64_t d = 0; d < size; ++d)
    query.push_back(ReadNumber(p.queries, p.dtype, q.row * p.query_stride + q.head * size + d));
  for (int64_t t = q.first; t <= q.position; ++t) {
    const double* key = seen.Key(t);
    double score = 0;
    for (int64_t d = 0; d < size; ++d) score += query[static_cast<size_t>(d)] * key[d];
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

void Attend(const PrefillAttentionParams& p, const Query& q, const HeadOfSequence& seen, double* out, double* spread) {
  const int64_t size = p.cache.head_size;
  const std::vector<double> weights = Weights(p, q, seen);
  std::vector<double> squares(static_cast<size_t>(size));
  std::fill_n(out, size, 0);
  for (int64_t t = q.first; t <= q.position; ++t) {
    const double* value = seen.Value(t);
    const double weight = weights[static_cast<size_t>(t - q.first)];
    for (int64_t d = 0; d < size; ++d) {
      const double part = weight * value[d];
      out[d] += part, squares[static_cast<size_t>(d)] += part * part;
    }
  }
  for (int64_t d = 0; d < size && spread != nullptr; ++d) spread[d] = std::sqrt(squares[static_cast<size_t>(d)]);
}

}  // namespace

std::vector<double> PrefillAttention(const PrefillAttentionParams& p, int64_t num_seqs, std::vector<double>* spreads) {
  const int64_t num_heads = p.head_start[p.cache.num_kv_heads], size = p.cache.head_size;
  std::vector<double> out(static_cast<size_t>(p.query_start[num_seqs] * num_heads * size),
                          std::numeric_limits<double>::quiet_NaN());
  if (spreads != nullptr) spreads->assign(out.size(), 0);
  for (int64_t s = 0; s < num_seqs; ++s) {
    const int64_t begin = p.query_start[s], end = p.query_start[s + 1], first_position = p.context_len[s] - end + begin;
    if (p.context_len[s] == 0 || begin == end) continue;
    const auto first_seen = [&](int64_t position) {
      return p.window > 0 ? std::max<int64_t>(position - p.window + 1, 0) : 0;
    };
    const int32_t* table = p.block_tables + (p.table_rows != nullptr ? p.table_rows[s] : s) * p.table_stride;
    for (int64_t g = 0; g < p.cache.num_kv_heads; ++g) {
      const HeadOfSequence seen(p.cache, table, g, first_seen(first_position), p.context_len[s]);
      for (int64_t row = begin; row < end; ++row) {
        const int64_t position = first_position + row - begin;
        for (int64_t h = p.head_start[g]; h < p.head_start[g + 1]; ++h) {
          const auto at = static_cast<size_t>((row * num_heads + h) * size);
          Attend(p, {row, h, first_seen(position), position}, seen, &out[at],
                 spreads == nullptr ? nullptr : &(*spreads)[at]);
        }
      }
    }
  }
  return out;
}

}  // namespace quire::kernels::reference

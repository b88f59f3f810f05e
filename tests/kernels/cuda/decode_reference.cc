#include "kernels/cuda/decode_reference.h"

#include <algorithm>
#include <cmath>

#include "tests/kernels/numbers.h"

namespace quire::kernels::reference {

int64_t KeyIndex(const PagedCache& c, int64_t block, int64_t kv_head, int64_t offset, int64_t d) {
  const int64_t x = 16 / ByteSize(c.type);
  // [num_blocks, num_kv_heads, head_size / x, block_size, x]
  return block * c.key_block_stride + ((kv_head * (c.head_size / x) + d / x) * c.block_size + offset) * x + d % x;
}

int64_t ValueIndex(const PagedCache& c, int64_t block, int64_t kv_head, int64_t offset, int64_t d) {
  // [num_blocks, num_kv_heads, head_size, block_size]
  return block * c.value_block_stride + (kv_head * c.head_size + d) * c.block_size + offset;
}

double AttentionBound(double unit, double sums, double exact, double spread) {
  return unit * (std::abs(exact) + 4 * spread) + sums * std::max(1.0, std::abs(exact));
}

HeadOfSequence::HeadOfSequence(const PagedCache& c, const int32_t* table, int64_t kv_head, int64_t first, int64_t end)
    : first_(first), size_(c.head_size) {
  for (int64_t t = first; t < end; ++t) {
    const int64_t block = table[t / c.block_size], offset = t % c.block_size;
    for (int64_t d = 0; d < size_; ++d) {
      keys_.push_back(ReadNumber(c.keys, c.type, KeyIndex(c, block, kv_head, offset, d)) * c.k_scale);
      values_.push_back(ReadNumber(c.values, c.type, ValueIndex(c, block, kv_head, offset, d)) * c.v_scale);
    }
  }
}

std::vector<double> PagedDecode(const PagedDecodeParams& p, std::vector<double>* spreads) {
  const PagedCache& c = p.cache;
  std::vector<double> out(static_cast<size_t>(int64_t{p.num_seqs} * p.num_heads * c.head_size));
  if (spreads != nullptr) spreads->assign(out.size(), 0);
  for (int64_t s = 0; s < p.num_seqs; ++s) {
    const int64_t context = p.context_len[s], first = p.window > 0 ? std::max<int64_t>(context - p.window, 0) : 0;
    if (context == 0) continue;
    const int32_t* table = p.block_tables + (p.table_rows == nullptr ? s : p.table_rows[s]) * p.table_stride;
    for (int64_t h = 0; h < p.num_heads; ++h) {
      const HeadOfSequence seen(c, table, p.kv_head_of[h], first, context);
      std::vector<double> weight, query;
      for (int64_t d = 0; d < c.head_size; ++d)
        query.push_back(ReadNumber(p.queries, p.dtype, s * p.query_stride + h * c.head_size + d));
      for (int64_t t = first; t < context; ++t) {
        double score = 0;
        for (int64_t d = 0; d < c.head_size; ++d) score += query[static_cast<size_t>(d)] * seen.Key(t)[d];
        score *= p.scale;
        if (p.soft_cap > 0) score = p.soft_cap * std::tanh(score / p.soft_cap);
        if (p.alibi_slopes != nullptr) score += p.alibi_slopes[h] * static_cast<double>(t - (context - 1));
        weight.push_back(score);
      }
      const double max = *std::max_element(weight.begin(), weight.end());
      double sum = p.sinks == nullptr ? 0 : std::exp(p.sinks[h] - max);
      for (double& w : weight) sum += w = std::exp(w - max);
      for (int64_t d = 0; d < c.head_size; ++d) {
        double value = 0, squares = 0;
        for (int64_t t = first; t < context; ++t) {
          const double part = weight[static_cast<size_t>(t - first)] * seen.Value(t)[d];
          value += part, squares += part * part;
        }
        const auto to = static_cast<size_t>((s * p.num_heads + h) * c.head_size + d);
        out[to] = value / sum;
        if (spreads != nullptr) (*spreads)[to] = std::sqrt(squares) / sum;
      }
    }
  }
  return out;
}

}  // namespace quire::kernels::reference

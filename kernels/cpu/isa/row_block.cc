#include "kernels/cpu/isa/row_block.h"

#include "kernels/cpu/isa/kv_span.h"

namespace quire::kernels::QUIRE_ISA {

namespace {

typedef float Quad __attribute__((vector_size(16)));

/// Transposes a 4 x 4 matrix.
inline void Transpose(Quad (&rows)[4]) {
  typedef int QuadIndex __attribute__((vector_size(16)));
  const QuadIndex low = {0, 4, 1, 5}, high = {2, 6, 3, 7}, left = {0, 1, 4, 5}, right = {2, 3, 6, 7};
  const Quad low01 = __builtin_shuffle(rows[0], rows[1], low), high01 = __builtin_shuffle(rows[0], rows[1], high);
  const Quad low23 = __builtin_shuffle(rows[2], rows[3], low), high23 = __builtin_shuffle(rows[2], rows[3], high);
  rows[0] = __builtin_shuffle(low01, low23, left);
  rows[1] = __builtin_shuffle(low01, low23, right);
  rows[2] = __builtin_shuffle(high01, high23, left);
  rows[3] = __builtin_shuffle(high01, high23, right);
}

/// Calls use(lane, query, head) for every row of the block.
template <class Use>
void EachRow(const PagedAttentionParams& p, const AttentionItem& item, const RowBlock& block, const Use& use) {
  const int64_t first_head = p.head_start[item.kv_head], group = p.head_start[item.kv_head + 1] - first_head;
  for (int64_t lane = 0; lane < block.count; ++lane) {
    const int64_t row = block.first + lane;
    use(lane, item.members->first_query + row / group, first_head + row % group);
  }
}

}  // namespace

void AddBias(const RelativeBias& bias, const RowBlock& block, int64_t start, int64_t begin, int64_t end,
             float* scores) {
  for (int64_t slot = begin; slot < end; ++slot) {
    for (int64_t lane = 0; lane < kBlockRows; ++lane)
      scores[slot * kBlockRows + lane] += bias.Of(block.head[lane], start + slot - block.place[lane]);
  }
}

void BeginBlock(const PagedAttentionParams& p, const AttentionItem& item, const RowBlock& block) {
  const int64_t dim = p.cache.head_dim, sequence = item.members->sequence;
  const float* from[kBlockRows];
  EachRow(p, item, block, [&](int64_t lane, int64_t query, int64_t head) {
    from[lane] = p.queries + query * p.query_stride + head * dim;
    block.place[lane] = static_cast<int32_t>(PositionOf(p, sequence, query));
    block.head[lane] = static_cast<int32_t>(head);
    block.slope[lane] = p.alibi_slopes == nullptr ? 0.0f : p.alibi_slopes[head];
    block.max[lane] = p.sinks == nullptr ? kMasked : p.sinks[head];
    block.sum[lane] = p.sinks == nullptr ? 0.0f : 1.0f;
  });
  for (int64_t lane = block.count; lane < kBlockRows; ++lane) {
    from[lane] = from[block.count - 1];
    block.place[lane] = block.place[block.count - 1];
    block.head[lane] = block.head[block.count - 1];
    block.slope[lane] = block.max[lane] = block.sum[lane] = 0.0f;
  }
  for (int64_t i = 0; i < dim * kBlockRows; ++i) block.out[i] = 0.0f;
  for (int64_t lane = 0; lane < kBlockRows; lane += 4) {
    int64_t d = 0;
    for (; d + 4 <= dim; d += 4) {
      Quad quads[4];
      for (int i = 0; i < 4; ++i) quads[i] = LoadAs<Quad>(from[lane + i] + d) * p.scale;
      Transpose(quads);
      for (int i = 0; i < 4; ++i) __builtin_memcpy(block.query + (d + i) * kBlockRows + lane, &quads[i], sizeof(Quad));
    }
    for (; d < dim; ++d) {
      for (int i = 0; i < 4; ++i) block.query[d * kBlockRows + lane + i] = from[lane + i][d] * p.scale;
    }
  }
}

void EndBlock(const PagedAttentionParams& p, const AttentionItem& item, const RowBlock& block) {
  const int64_t dim = p.out_size();
  float* to[kBlockRows];
  EachRow(p, item, block,
          [&](int64_t lane, int64_t query, int64_t head) { to[lane] = p.out + query * p.out_stride + head * dim; });
  for (int64_t lane = 0; lane < block.count; lane += 4) {
    const int64_t lanes = Least(4, block.count - lane);
    const Quad sum = LoadAs<Quad>(block.sum + lane);
    const float* from = block.out + lane;
    int64_t d = 0;
    for (; d + 4 <= dim; d += 4) {
      Quad quads[4];
      for (int i = 0; i < 4; ++i) quads[i] = LoadAs<Quad>(from + (d + i) * kBlockRows) / sum;
      Transpose(quads);
      for (int i = 0; i < lanes; ++i) __builtin_memcpy(to[lane + i] + d, &quads[i], sizeof(Quad));
    }
    for (; d < dim; ++d) {
      for (int i = 0; i < lanes; ++i) to[lane + i][d] = from[d * kBlockRows + i] / sum[i];
    }
  }
}

}  // namespace quire::kernels::QUIRE_ISA

// The CPU ops: check the parameters, cut the work into independent parts, hand them to the instruction set's table.
#include <algorithm>
#include <span>
#include <vector>

#include "kernels/check.h"
#include "kernels/cpu/attention_items.h"
#include "kernels/cpu/isa/table.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/embedding.h"

namespace quire::kernels {

namespace {

/// fp32 working space of one thread, kept between calls so that a step allocates nothing.
float* ThreadScratch(int64_t floats) {
  thread_local std::vector<float> scratch;
  if (static_cast<int64_t>(scratch.size()) < floats) scratch.resize(static_cast<size_t>(floats));
  return scratch.data();
}

bool IsQuantized(WeightType type) { return LayoutOf(type).block_numbers > 1; }

/// Room for the rows of one product in integers.
template <class T>
class QuantizeBuffer {
 public:
  QuantizedRows<T> Fill(const CpuStream& stream, const MatmulParams& p,
                        void (*quantize)(const float*, int64_t, T*, float*, float*)) {
    const int64_t cols = p.weights[0].cols, blocks = cols / kQuantBlock;
    const auto at_least = [](auto& list, int64_t size) {
      if (static_cast<int64_t>(list.size()) < size) list.resize(static_cast<size_t>(size));
    };
    at_least(values_, p.m * cols);
    at_least(scales_, p.m * blocks);
    at_least(sums_, p.m * blocks);
    stream.pool().ForRange(p.m, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        quantize(p.x + i * p.x_stride, cols, values_.data() + i * cols, scales_.data() + i * blocks,
                 sums_.data() + i * blocks);
      }
    });
    return {values_.data(), scales_.data(), sums_.data(), cols};
  }

 private:
  std::vector<T> values_;
  std::vector<float> scales_, sums_;
};

}  // namespace

void Embedding(const CpuStream& stream, const EmbeddingParams& p) {
  stream.pool().ForRange(p.num_tokens, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      float* out = p.out + t * p.table.cols;
      float* row = p.adds ? ThreadScratch(p.table.cols) : out;
      DecodeRow(p.table, p.token_ids[t], 0, p.table.cols, row);
      for (int64_t i = 0; p.scale != 1 && i < p.table.cols; ++i) row[i] *= p.scale;
      for (int64_t i = 0; p.adds && i < p.table.cols; ++i) out[i] += row[i];
    }
  });
}

void LayerNorm(const CpuStream& stream, const LayerNormParams& p) {
  stream.pool().ForRange(p.num_tokens, 4,
                         [&](int64_t begin, int64_t end, int) { ActiveTable().layer_norm(p, begin, end); });
}

void Activate(const CpuStream& stream, const ActivateParams& p) {
  stream.pool().ForRange(p.num_tokens, 1,
                         [&](int64_t begin, int64_t end, int) { ActiveTable().activate(p, begin, end); });
}

void AddRows(const CpuStream& stream, const AddRowsParams& p) {
  stream.pool().ForRange(p.num_tokens, 4,
                         [&](int64_t begin, int64_t end, int) { ActiveTable().add_rows(p, begin, end); });
}

void RmsNorm(const CpuStream& stream, const RmsNormParams& p) {
  stream.pool().ForRange(p.num_tokens, 4,
                         [&](int64_t begin, int64_t end, int) { ActiveTable().rms_norm(p, begin, end); });
}

void HeadNorm(const CpuStream& stream, const HeadNormParams& p) {
  QUIRE_KERNEL_CHECK(p.row_stride >= p.num_heads * p.head_dim);
  stream.pool().ForRange(p.num_tokens, 4,
                         [&](int64_t begin, int64_t end, int) { ActiveTable().head_norm(p, begin, end); });
}

void AddBias(const CpuStream& stream, const AddBiasParams& p) {
  QUIRE_KERNEL_CHECK(p.row_stride >= p.columns);
  stream.pool().ForRange(p.num_tokens, 4,
                         [&](int64_t begin, int64_t end, int) { ActiveTable().add_bias(p, begin, end); });
}

void Rope(const CpuStream& stream, const RopeParams& p) {
  QUIRE_KERNEL_CHECK(p.rotary_dim % 2 == 0 && p.rotary_dim <= p.head_dim);
  stream.pool().ForRange(p.num_tokens, 4, [&](int64_t begin, int64_t end, int) { ActiveTable().rope(p, begin, end); });
}

void GateMul(const CpuStream& stream, const GateMulParams& p) {
  stream.pool().ForRange(p.num_tokens, 1,
                         [&](int64_t begin, int64_t end, int) { ActiveTable().gate_mul(p, begin, end); });
}

void CapLogits(const CpuStream& stream, const CapLogitsParams& p) {
  stream.pool().ForRange(p.count, 64,
                         [&](int64_t begin, int64_t end, int) { ActiveTable().cap_logits(p, begin, end); });
}

void SumSquares(const CpuStream& stream, const SumSquaresParams& p) {
  stream.pool().ForRange(p.num_tokens, 4,
                         [&](int64_t begin, int64_t end, int) { ActiveTable().sum_squares(p, begin, end); });
}

void WideNorm(const CpuStream& stream, const WideNormParams& p) {
  stream.pool().ForRange(p.num_tokens, 4,
                         [&](int64_t begin, int64_t end, int) { ActiveTable().wide_norm(p, begin, end); });
}

void Matmul(const CpuStream& stream, const MatmulParams& p) {
  const IsaTable& table = ActiveTable();
  const auto in_int8 = [&](const PackedWeight& w) {
    return IsQuantized(w.type) && p.activations == Activations::kInt8 && table.takes_int8(w.type);
  };
  const auto in_int16 = [&](const PackedWeight& w) { return IsQuantized(w.type) && !in_int8(w); };
  const std::span weights(p.weights, static_cast<size_t>(p.num_weights));
  int64_t rows = 0, panels = 0;
  for (const PackedWeight& w : weights) {
    QUIRE_KERNEL_CHECK(w.cols == weights[0].cols);
    rows += w.rows;
    panels += w.num_panels();
  }
  QUIRE_KERNEL_CHECK(!weights.empty() && p.x_stride >= weights[0].cols && p.y_stride >= rows);
  thread_local QuantizeBuffer<int16_t> words;  // kept between calls so that a step allocates nothing
  thread_local QuantizeBuffer<int8_t> bytes;
  QuantizedRows<int16_t> x16{};
  QuantizedRows<int8_t> x8{};
  if (std::ranges::any_of(weights, in_int16)) x16 = words.Fill(stream, p, table.quantize_int16);
  if (std::ranges::any_of(weights, in_int8)) x8 = bytes.Fill(stream, p, table.quantize_int8);
  stream.pool().ForRange(panels, 1, [&](int64_t begin, int64_t end, int) {
    float* y = p.y;
    for (const PackedWeight& w : weights) {
      const int64_t mine = w.num_panels();
      const PanelProduct product{
          w, std::clamp<int64_t>(begin, 0, mine), std::clamp<int64_t>(end, 0, mine), y, p.y_stride, p.m};
      begin -= mine;
      end -= mine;
      y += w.rows;
      if (product.panel_begin == product.panel_end) continue;
      if (in_int8(w)) {
        table.matmul_int8(product, x8);
      } else if (in_int16(w)) {
        table.matmul_int16(product, x16);
      } else {
        table.matmul_plain(product, p.x, p.x_stride);
      }
    }
  });
}

void PagedAttention(const CpuStream& stream, const PagedAttentionParams& p) {
  QUIRE_KERNEL_CHECK(p.head_start[p.cache.num_kv_heads] == p.num_heads && p.cache.block_size <= kMaxBlockSize);
  thread_local AttentionItems cut;
  cut.Cut(p, stream.pool().num_threads());
  const std::vector<AttentionItem>& items = cut.list();
  const IsaTable& table = ActiveTable();
  const int64_t scratch = table.attention_scratch(p);
  stream.pool().ForEach(static_cast<int64_t>(items.size()), [&](int64_t i, int) {
    table.attention(p, items[static_cast<size_t>(i)], ThreadScratch(scratch));
  });
}

}  // namespace quire::kernels

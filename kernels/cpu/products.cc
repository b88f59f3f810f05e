// Computes products with packed weights: for rows that share all weights, and for rows grouped by expert.
#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "kernels/check.h"
#include "kernels/cpu/isa/table.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/expert_matmul.h"

namespace quire::kernels {

namespace {

bool IsQuantized(NumberType type) { return LayoutOf(type).block_numbers > 1; }

template <class T>
void MakeRoom(std::vector<T>& list, int64_t size) {
  if (static_cast<int64_t>(list.size()) < size) list.resize(static_cast<size_t>(size));
}

/// The x of one product: m rows of `cols` numbers.
struct Rows {
  const float* x;
  int64_t stride, m, cols;
};

/// Memory for the integer form of a product's rows.
template <class T>
class IntegerBuffer {
 public:
  IntegerRows<T> Fill(const CpuStream& stream, const Rows& rows,
                      void (*quantize)(const float* x, const IntegerRows<T>& to)) {
    const int64_t blocks = rows.m * (rows.cols / kQuantBlock);
    MakeRoom(values_, rows.m * rows.cols);
    for (auto* list : {&scales_, &lifts_, &sums_}) MakeRoom(*list, blocks);
    MakeRoom(begins_, blocks);
    const IntegerRows<T> all = {values_.data(), scales_.data(), lifts_.data(), begins_.data(), sums_.data(), rows.cols};
    stream.pool().ForRange(rows.m, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) quantize(rows.x + i * rows.stride, all.From(i));
    });
    return all;
  }

 private:
  std::vector<T> values_;
  std::vector<int32_t> begins_;
  std::vector<float> scales_, lifts_, sums_;
};

/// The rows of one product in every form that its weights need. A thread prepares the rows of one product at a time.
class PreparedRows {
 public:
  PreparedRows(const CpuStream& stream, const Rows& rows, std::span<const PackedWeight> weights,
               Activations activations)
      : table_(ActiveTable()), rows_(rows), activations_(activations) {
    thread_local IntegerBuffer<int16_t> words;  // used again in later calls, so that a step allocates nothing
    thread_local IntegerBuffer<int8_t> bytes;
    const auto in_int16 = [&](const PackedWeight& w) { return IsQuantized(w.type) && !InInt8(w); };
    if (std::ranges::any_of(weights, in_int16)) x16_ = words.Fill(stream, rows, table_.quantize_int16);
    if (std::ranges::any_of(weights, [&](const PackedWeight& w) { return InInt8(w); })) {
      x8_ = bytes.Fill(stream, rows, table_.quantize_int8);
    }
  }

  /// Multiplies product.m rows, beginning at row `first`.
  void Multiply(const PanelProduct& product, int64_t first) const {
    if (InInt8(product.weight)) {
      table_.matmul_int8(product, x8_.From(first));
    } else if (IsQuantized(product.weight.type)) {
      table_.matmul_int16(product, x16_.From(first));
    } else {
      table_.matmul_plain(product, rows_.x + first * rows_.stride, rows_.stride);
    }
  }

 private:
  bool InInt8(const PackedWeight& w) const {
    return IsQuantized(w.type) && activations_ == Activations::kInt8 && table_.takes_int8(w.type);
  }

  const IsaTable& table_;
  Rows rows_;
  Activations activations_;
  IntegerRows<int16_t> x16_{};
  IntegerRows<int8_t> x8_{};
};

/// Work for one thread: some panels of one weight of one expert.
struct ExpertItem {
  int64_t expert;
  const PackedWeight* weight;
  int64_t panel_begin, panel_end;
  int64_t first_column;  // first column of the result in y
};

/// Cuts the product into items: panels of those experts that have rows.
void CutItems(const ExpertMatmulParams& p, std::vector<ExpertItem>& items) {
  constexpr int64_t kPanels = 8;  // 128 rows of a weight: enough work to outweigh the cost of taking an item
  items.clear();
  for (int64_t e = 0; e < p.num_experts; ++e) {
    if (p.start[e] == p.start[e + 1]) continue;
    int64_t column = 0;
    for (int64_t w = 0; w < p.num_weights; ++w) {
      const PackedWeight& weight = p.weights[e * p.num_weights + w];
      for (int64_t panel = 0; panel < weight.num_panels(); panel += kPanels) {
        items.push_back({e, &weight, panel, std::min(weight.num_panels(), panel + kPanels), column});
      }
      column += weight.rows;
    }
  }
}

}  // namespace

void Matmul(const CpuStream& stream, const MatmulParams& p) {
  const std::span weights(p.weights, static_cast<size_t>(p.num_weights));
  int64_t rows = 0, panels = 0;
  for (const PackedWeight& w : weights) {
    QUIRE_KERNEL_CHECK(w.cols == weights[0].cols);
    rows += w.rows;
    panels += w.num_panels();
  }
  QUIRE_KERNEL_CHECK(!weights.empty() && p.x_stride >= weights[0].cols && p.y_stride >= rows);
  const PreparedRows x(stream, {p.x, p.x_stride, p.m, weights[0].cols}, weights, p.activations);
  stream.pool().ForRange(panels, 1, [&](int64_t begin, int64_t end, int) {
    float* y = p.y;
    for (const PackedWeight& w : weights) {
      const int64_t mine = w.num_panels();
      const PanelProduct product{
          w, std::clamp<int64_t>(begin, 0, mine), std::clamp<int64_t>(end, 0, mine), y, p.y_stride, p.m};
      begin -= mine;
      end -= mine;
      y += w.rows;
      if (product.panel_begin < product.panel_end) x.Multiply(product, 0);
    }
  });
}

void ExpertMatmul(const CpuStream& stream, const ExpertMatmulParams& p) {
  thread_local std::vector<float> gathered;
  thread_local std::vector<ExpertItem> items;
  const int64_t m = p.start[p.num_experts], cols = p.weights[0].cols;
  QUIRE_KERNEL_CHECK(p.num_weights > 0 && p.x_stride >= cols);
  int64_t y_stride = 0;
  for (int64_t w = 0; w < p.num_weights; ++w) y_stride += p.weights[w].rows;
  Rows rows{p.x, p.x_stride, m, cols};
  if (p.pair_of_row != nullptr) {
    MakeRoom(gathered, m * cols);
    float* to = gathered.data();
    stream.pool().ForRange(m, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) {
        const float* from = p.x + p.pair_of_row[r] / p.pairs_per_x_row * p.x_stride;
        std::memcpy(to + r * cols, from, static_cast<size_t>(cols) * sizeof(float));
      }
    });
    rows = {to, cols, m, cols};
  }
  const std::span weights(p.weights, static_cast<size_t>(p.num_experts * p.num_weights));
  const PreparedRows x(stream, rows, weights, p.activations);
  CutItems(p, items);
  const std::vector<ExpertItem>& cut = items;  // this thread's list; each thread has its own variable `items`
  stream.pool().ForEach(static_cast<int64_t>(cut.size()), [&](int64_t i, int) {
    const ExpertItem& item = cut[static_cast<size_t>(i)];
    const int64_t first = p.start[item.expert], count = p.start[item.expert + 1] - first;
    float* y = p.y + first * y_stride + item.first_column;
    x.Multiply({*item.weight, item.panel_begin, item.panel_end, y, y_stride, count}, first);
    if (p.bias == nullptr) return;
    const float* bias = p.bias + item.expert * y_stride + item.first_column;
    const int64_t end = std::min(item.panel_end * kPanelRows, item.weight->rows);
    for (int64_t row = 0; row < count; ++row) {
      for (int64_t c = item.panel_begin * kPanelRows; c < end; ++c) y[row * y_stride + c] += bias[c];
    }
  });
}

}  // namespace quire::kernels

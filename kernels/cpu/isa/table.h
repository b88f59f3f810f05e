#pragma once

#include "kernels/activation.h"
#include "kernels/add_rows.h"
#include "kernels/cap_logits.h"
#include "kernels/combine_experts.h"
#include "kernels/cpu/isa/attention_item.h"
#include "kernels/gate_mul.h"
#include "kernels/head_norm.h"
#include "kernels/kv_cache.h"
#include "kernels/layer_norm.h"
#include "kernels/matmul.h"
#include "kernels/paged_attention.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "kernels/scale_columns.h"
#include "kernels/scale_rows.h"
#include "kernels/sum_squares.h"
#include "kernels/wide_norm.h"

namespace quire::kernels {

/// Decodes part of a row of a type that occurs only in files to float.
void DecodeFileQuants(NumberType type, const std::byte* in, int64_t count, float* out);

/// A product with some panels of a weight.
struct PanelProduct {
  const PackedWeight& weight;
  int64_t panel_begin, panel_end;
  float* y;  // [m, weight.rows], rows y_stride floats apart
  int64_t y_stride;
  int64_t m;
};

/// Rows of x rounded to integers: x[i, k] is about values[i, k] * scales[i, k / 32].
///  - values: 8-bit values are in the order of the weights' quads: columns 0, 4, 1, 5, 2, 6, 3, 7 of every eight.
///  - begins: start values of a block's integer sums: -128 times the sum of the values. The start values cancel the 128
///    that may be added to weights. With 8-bit values (block sums below 2^19) the start values also contain the bits of
///    kRounder. The bits of the sum, read as a float, are then kRounder + sum.
///  - lifts (8-bit values only): exactly -kRounder * scale. So (kRounder + sum) * scale + lift is sum * scale.
///  - sums: the sum of the values times scale.
template <class T>
struct IntegerRows {
  T* values;      // [m, cols]
  float* scales;  // [m, cols / 32]; lifts, begins and sums have this shape, too
  float* lifts;
  int32_t* begins;
  float* sums;
  int64_t cols;

  /// Returns the rows from `row` on.
  IntegerRows From(int64_t row) const {
    const int64_t at = row * (cols / kQuantBlock);
    return {values + row * cols, scales + at, lifts + at, begins + at, sums + at, cols};
  }
};

/// The weights with which a row's tokens are sampled: weights[i] = exp((logits[i] - max) * inverse_temperature), or 0
/// for logits below `least`. Every instruction set gives the same bits, because ranks with different instruction sets
/// must sample the same token.
struct WeighParams {
  const float* logits;
  int64_t count;
  float max, inverse_temperature, least;
  float* weights;  // [count]
  float* sums;     // one sum per kWeighBlock weights
};
inline constexpr int64_t kWeighBlock = 64;

enum class Arithmetic { kMultiplyAdd, kInt16, kInt8 };

/// The vectorised parts of ops, compiled once per instruction set. Ranges and items are independent of each other.
struct IsaTable {
  void (*matmul_plain)(const PanelProduct&, const float* x, int64_t x_stride);
  void (*matmul_int16)(const PanelProduct&, const IntegerRows<int16_t>& x);
  void (*matmul_int8)(const PanelProduct&, const IntegerRows<int8_t>& x);
  bool (*takes_int8)(NumberType);  // true if matmul_int8 is faster than matmul_int16
  void (*quantize_int16)(const float* x, const IntegerRows<int16_t>& to);  // rounds one row
  void (*quantize_int8)(const float* x, const IntegerRows<int8_t>& to);    // rounds one row
  void (*attention)(const PagedAttentionParams&, const AttentionItem&, float* scratch);
  int64_t (*attention_scratch)(const PagedAttentionParams&);  // returns the number of floats
  void (*kv_write)(const KvWriteParams&, int64_t row_begin, int64_t row_end);
  void (*rms_norm)(const RmsNormParams&, int64_t row_begin, int64_t row_end);
  void (*head_norm)(const HeadNormParams&, int64_t row_begin, int64_t row_end);
  void (*rope)(const RopeParams&, int64_t row_begin, int64_t row_end);
  void (*gate_mul)(const GateMulParams&, int64_t row_begin, int64_t row_end);
  void (*cap_logits)(const CapLogitsParams&, int64_t begin, int64_t end);
  void (*sum_squares)(const SumSquaresParams&, int64_t row_begin, int64_t row_end);
  void (*wide_norm)(const WideNormParams&, int64_t row_begin, int64_t row_end);
  void (*layer_norm)(const LayerNormParams&, int64_t row_begin, int64_t row_end);
  void (*activate)(const ActivateParams&, int64_t row_begin, int64_t row_end);
  void (*add_rows)(const AddRowsParams&, int64_t row_begin, int64_t row_end);
  void (*scale_columns)(const ScaleColumnsParams&, int64_t row_begin, int64_t row_end);
  void (*scale_rows)(const ScaleRowsParams&, int64_t row_begin, int64_t row_end);
  void (*combine_experts)(const CombineExpertsParams&, int64_t row_begin, int64_t row_end);
  float (*row_max)(const float* x, int64_t count);  // NaN counts as -infinity
  void (*weigh)(const WeighParams&);
  double (*run_peak)(Arithmetic, int64_t rounds);  // returns the number of operations; 0: no such instructions
  void (*decode)(const Weight&, int64_t row, int64_t col, int64_t count, float* out);
};

namespace baseline {
const IsaTable& Table();
}
namespace avx2 {
const IsaTable& Table();
}
namespace avxvnni {
const IsaTable& Table();
}
namespace avx512 {
const IsaTable& Table();
}
namespace avx512vnni {
const IsaTable& Table();
}
namespace avx512amx {
const IsaTable& Table();
}

/// Returns the best table that this processor supports (see CpuIsaName).
const IsaTable& ActiveTable();

}  // namespace quire::kernels

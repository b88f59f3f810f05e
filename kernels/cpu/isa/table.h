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
#include "kernels/sum_squares.h"
#include "kernels/wide_norm.h"

namespace quire::kernels {

/// Part of a row of a type that is found in files only, as float.
void DecodeFileQuants(NumberType type, const std::byte* in, int64_t count, float* out);

/// Some panels of a product.
struct PanelProduct {
  const PackedWeight& weight;
  int64_t panel_begin, panel_end;
  float* y;  // [m, weight.rows], rows y_stride floats apart
  int64_t y_stride;
  int64_t m;
};

/// Rows of x in integers: x[i, k] is about values[i, k] * scales[i, k / 32].
///   - 8-bit values are kept in the order of the weights' quads: of every eight columns 0, 4, 1, 5, 2, 6, 3, 7.
///   - begins: what a block's integer sums begin with where weights were raised by 128, which it takes away: -128 times
///     the total of the values. Of 8-bit values (whose sums are below 2^19) the bits of kRounder are added to that: as
///     a float such a sum is kRounder and the sum.
///   - lifts, of 8-bit values alone: -kRounder * scale, exactly; so that one multiply-add makes of such a float the sum
///     times scale.
///   - sums: the total times scale.
template <class T>
struct IntegerRows {
  T* values;      // [m, cols]
  float* scales;  // [m, cols / 32], and so are the others
  float* lifts;
  int32_t* begins;
  float* sums;
  int64_t cols;

  /// The same from a row on.
  IntegerRows From(int64_t row) const {
    const int64_t at = row * (cols / kQuantBlock);
    return {values + row * cols, scales + at, lifts + at, begins + at, sums + at, cols};
  }
};

/// The weights of a row's tokens in a draw: weights[i] = exp((logits[i] - max) * inverse_temperature), 0 for logits
/// below `least`. The same bits with every instruction set: ranks may have different ones, and draw the same.
struct WeighParams {
  const float* logits;
  int64_t count;
  float max, inverse_temperature, least;
  float* weights;  // [count]
  float* sums;     // of every kWeighBlock weights
};
inline constexpr int64_t kWeighBlock = 64;

enum class Arithmetic { kMultiplyAdd, kInt16, kInt8 };

/// The vectorised inner parts, compiled once per instruction set. Ranges and items are independent of each other.
struct IsaTable {
  void (*matmul_plain)(const PanelProduct&, const float* x, int64_t x_stride);
  void (*matmul_int16)(const PanelProduct&, const IntegerRows<int16_t>& x);
  void (*matmul_int8)(const PanelProduct&, const IntegerRows<int8_t>& x);
  bool (*takes_int8)(NumberType);  // whether matmul_int8 multiplies such weights, and faster than matmul_int16
  void (*quantize_int16)(const float* x, const IntegerRows<int16_t>& to);  // one row
  void (*quantize_int8)(const float* x, const IntegerRows<int8_t>& to);    // likewise
  void (*attention)(const PagedAttentionParams&, const AttentionItem&, float* scratch);
  int64_t (*attention_scratch)(const PagedAttentionParams&);  // floats
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
  void (*combine_experts)(const CombineExpertsParams&, int64_t row_begin, int64_t row_end);
  float (*row_max)(const float* x, int64_t count);  // NaN counts as -infinity
  void (*weigh)(const WeighParams&);
  double (*run_peak)(Arithmetic, int64_t rounds);  // operations done; 0: there are no such instructions
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

/// The best table this processor runs (see CpuIsaName).
const IsaTable& ActiveTable();

}  // namespace quire::kernels

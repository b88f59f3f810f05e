#include "worker/cuda/decoder/products.h"

#include <algorithm>

#include "kernels/cuda/products/quantize_rows.h"
#include "kernels/cuda/products/quantized_gemm.h"
#include "worker/cuda/device/timing.h"

namespace quire {

namespace {

kernels::SkinnyGemmParams AsSkinny(const GemmParams& p, kernels::SkinnyTile tile) {
  return {.dtype = p.dtype,
          .x = p.x,
          .x_stride = p.x_stride,
          .weight = p.weight,
          .norm_weight = nullptr,
          .epsilon = 0,
          .out = p.y,
          .out_stride = p.y_stride,
          .n = p.n,
          .k = p.k,
          .m = static_cast<int32_t>(p.m),
          .epilogue = p.float_result ? kernels::SkinnyEpilogue::kStoreFloat : kernels::SkinnyEpilogue::kStore,
          .tile = tile};
}

}  // namespace

void Products::RunQuantized(const GemmParams& p) {
  const kernels::QuantizedMatrix weight{*p.quantized, p.weight, p.n, p.k};
  if (p.m <= kernels::kQuantizedMaxRows) {
    return kernels::QuantizedGemm(device_.stream(), {.dtype = p.dtype,
                                                     .x = p.x,
                                                     .x_stride = p.x_stride,
                                                     .weight = weight,
                                                     .out = p.y,
                                                     .out_stride = p.y_stride,
                                                     .m = static_cast<int32_t>(p.m),
                                                     .scale = p.scale});
  }
  if (RunFp8(p)) return;
  const int64_t element = ByteSize(p.dtype), rows_at_once = expanded_bytes_ / (p.k * element) / 8 * 8;
  for (int64_t first = 0; first < p.n; first += rows_at_once) {
    const int64_t rows = std::min(rows_at_once, p.n - first);
    kernels::ExpandQuantized(device_.stream(), {p.dtype, weight, first, rows, expanded_});
    GemmParams part = p;
    part.quantized = {};
    part.weight = expanded_;
    part.n = rows;
    part.y = static_cast<std::byte*>(p.y) + first * element;
    gemm_.Run(part);
  }
}

bool Products::RunFp8(const GemmParams& p) {
  // The scratch memory for expanded rows takes rows of x in FP8, and after them their scales.
  const int64_t rows_at_once = expanded_bytes_ / (p.k + static_cast<int64_t>(sizeof(float))) / 4 * 4;
  if (*p.quantized != NumberType::kFp8E4M3 || p.k % 16 != 0 || p.n % 16 != 0 || rows_at_once == 0) return false;
  GemmParams part = p;
  part.quantized = {};
  part.x = expanded_;
  part.x_stride = p.k;
  part.weight_scales = reinterpret_cast<const float*>(static_cast<const std::byte*>(p.weight) + p.n * p.k);
  for (int64_t first = 0; first < p.m; first += rows_at_once) {
    part.m = std::min(rows_at_once, p.m - first);
    auto* scales = reinterpret_cast<float*>(static_cast<std::byte*>(expanded_) + part.m * p.k);
    part.x_scales = scales;
    part.y = static_cast<std::byte*>(p.y) + first * p.y_stride * ByteSize(p.dtype);
    const auto [known, is_new] = has_fp8_.try_emplace({p.n, p.k});
    if (is_new) known->second = gemm_.Has(part);
    if (!known->second) return false;
    const auto* x = static_cast<const std::byte*>(p.x) + first * p.x_stride * ByteSize(p.dtype);
    kernels::QuantizeRows(device_.stream(), {p.dtype, x, p.x_stride, part.m, p.k, expanded_, scales});
    gemm_.Run(part);
  }
  return true;
}

void Products::Run(const GemmParams& p) {
  if (p.quantized) return RunQuantized(p);
  if (p.batch > 1) return gemm_.Run(p);
  const auto found = skinny_.find({p.float_result, p.m, p.n, p.k});
  if (found == skinny_.end() || p.scale != 1) return gemm_.Run(p);
  kernels::SkinnyGemm(device_.stream(), AsSkinny(p, found->second));
}

void Products::Tune(const GemmParams& p, std::span<const void* const> weights) {
  const double library = gemm_.Tune(p, weights);
  if (!kernels::SkinnyGemmSupports(p.dtype, p.m, p.n, p.k)) return;
  double best = library;
  size_t turn = 0;
  for (const auto tile : {kernels::SkinnyTile::kNarrow, kernels::SkinnyTile::kWide}) {
    const auto seconds = MedianSeconds(device_, [&] {
      kernels::SkinnyGemmParams run = AsSkinny(p, tile);
      run.weight = weights[turn++ % weights.size()];
      kernels::SkinnyGemm(device_.stream(), run);
      return true;
    });
    if (*seconds >= best) continue;
    best = *seconds;
    skinny_.insert_or_assign({p.float_result, p.m, p.n, p.k}, tile);
  }
}

}  // namespace quire

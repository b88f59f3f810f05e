#include "worker/cuda/products.h"

#include <algorithm>

#include "kernels/cuda/products/quantized_gemm.h"
#include "worker/cuda/timing.h"

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

void Products::Run(const GemmParams& p) {
  if (p.quantized) return RunQuantized(p);
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

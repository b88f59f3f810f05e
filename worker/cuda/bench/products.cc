// Measures the matrix products of a decode step, in the shapes of a model with 8 billion weights: Quire's kernel for
// few rows against the library of the GPU's vendor.
#include "worker/cuda/decoder/products.h"

#include <fmt/format.h>

#include "worker/cuda/bench/bench.h"
#include "worker/cuda/bench/bench_kernels.h"

namespace quire::bench {

namespace {

constexpr auto kBF16 = NumberType::kBF16;

struct Weight {
  const char* name;
  int64_t n, k;
};

void MeasureProduct(Bench& bench, const Weight& w, int64_t m) {
  Device& device = bench.device();
  const int64_t bytes = w.n * w.k * 2, sets = SetsFor(bytes);
  const DeviceMemory weights = device.Allocate(sets * bytes, "weights"), x = device.Allocate(m * w.k * 2, "inputs"),
                     y = device.Allocate(m * w.n * 2, "results");
  FillRandom(device.stream(), weights.as<void>(), sets * w.n * w.k, kBF16, 1, 8);
  FillRandom(device.stream(), x.as<void>(), m * w.k, kBF16, 1, 9);
  std::vector<const void*> rotating;
  for (int64_t s = 0; s < sets; ++s) rotating.push_back(weights.as() + s * bytes);
  const auto weight = [&](int64_t set) { return rotating[static_cast<size_t>(set)]; };

  Gemm first(device), tuned(device);
  const GemmParams product{kBF16, x.as<void>(), nullptr, y.as<void>(), w.k, w.n, m, w.n, w.k};
  tuned.Tune(product, rotating);
  const auto library = [product, weight](Gemm& gemm) {
    return [&gemm, product, weight](int64_t set) {
      GemmParams run = product;
      run.weight = weight(set);
      gemm.Run(run);
    };
  };
  std::vector<Variant> variants = {{"cuBLASLt, first guess", library(first)}, {"cuBLASLt, tuned", library(tuned)}};
  for (const auto tile : {kernels::SkinnyTile::kNarrow, kernels::SkinnyTile::kWide}) {
    variants.push_back(
        {tile == kernels::SkinnyTile::kNarrow ? "skinny, narrow" : "skinny, wide", [&, tile](int64_t set) {
           SkinnyGemm(device.stream(), {.dtype = kBF16,
                                        .x = x.as<void>(),
                                        .x_stride = w.k,
                                        .weight = weight(set),
                                        .norm_weight = nullptr,
                                        .epsilon = 0,
                                        .out = y.as<void>(),
                                        .out_stride = w.n,
                                        .n = w.n,
                                        .k = w.k,
                                        .m = static_cast<int32_t>(m),
                                        .epilogue = kernels::SkinnyEpilogue::kStore,
                                        .tile = tile});
         }});
  }
  bench.Measure({.section = "decode products",
                 .name = fmt::format("{} {} x {}, {} rows", w.name, w.n, w.k, m),
                 .bytes = static_cast<double>(bytes + 2 * m * (w.n + w.k)),
                 .flops = 2.0 * static_cast<double>(m * w.n * w.k),
                 .formula = "2 (n k + m k + m n) bytes; 2 m n k operations",
                 .sets = sets,
                 .facts = {{"weight", w.name}, {"m", m}, {"n", w.n}, {"k", w.k}},
                 .output = {y.as<void>(), y.bytes(), w.n}},
                variants);
}

}  // namespace

void BenchProducts(Bench& bench) {
  const Weight weights[] = {{"qkv", 6144, 4096},
                            {"o", 4096, 4096},
                            {"gate_up", 28672, 4096},
                            {"down", 4096, 14336},
                            {"lm_head", 128256, 4096}};
  for (const Weight& weight : weights) {
    for (const int64_t m : {1, 8, 16, 64}) MeasureProduct(bench, weight, m);
  }
}

}  // namespace quire::bench

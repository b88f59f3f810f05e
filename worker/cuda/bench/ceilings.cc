// Measures the highest rates of this device, in the same run as the results that are compared with them.
#include "worker/cuda/bench/bench.h"
#include "worker/cuda/bench/bench_kernels.h"
#include "worker/cuda/device/gemm.h"

namespace quire::bench {

namespace {
constexpr auto kBF16 = NumberType::kBF16;
constexpr int64_t kStreamBytes = int64_t{1} << 30, kEdge = 8192;
}  // namespace

void BenchCeilings(Bench& bench) {
  Device& device = bench.device();
  const auto stream = device.stream();
  const DeviceMemory from = device.Allocate(kStreamBytes, "a ceiling"), to = device.Allocate(kStreamBytes, "a ceiling");
  FillRandom(stream, from.as<void>(), kStreamBytes / 2, kBF16, 1, 1);
  const int sms = device.num_sms();
  const double copy =
      bench
          .Measure(
              {.section = "ceilings",
               .name = "copy of 1 GiB",
               .bytes = 2.0 * kStreamBytes,
               .formula = "bytes read + bytes written"},
              {{"copy", [&](int64_t) { StreamCopy(stream, to.as<void>(), from.as<void>(), kStreamBytes, sms); }}})[0]
          .median;
  const double read =
      bench
          .Measure(
              {.section = "ceilings", .name = "read of 1 GiB", .bytes = 1.0 * kStreamBytes, .formula = "bytes read"},
              {{"read",
                [&](int64_t) { StreamRead(stream, from.as<void>(), kStreamBytes, to.as<uint32_t>(), sms); }}})[0]
          .median;
  Gemm gemm(device);
  const DeviceMemory w = device.Allocate(kEdge * kEdge * 2, "a ceiling"),
                     y = device.Allocate(kEdge * kEdge * 2, "a ceiling");
  FillRandom(stream, w.as<void>(), kEdge * kEdge, kBF16, 1, 2);
  const GemmParams product{kBF16, from.as<void>(), w.as<void>(), y.as<void>(), kEdge, kEdge, kEdge, kEdge, kEdge};
  const void* weights[] = {w.as<void>()};
  gemm.Tune(product, weights);
  const double flops = 2.0 * kEdge * kEdge * kEdge;
  const double gemm_seconds =
      bench
          .Measure(
              {.section = "ceilings", .name = "bf16 product 8192 x 8192 x 8192", .flops = flops, .formula = "2 m n k"},
              {{"cuBLASLt, tuned", [&](int64_t) { gemm.Run(product); }}})[0]
          .median;
  bench.SetCeilings(2.0 * kStreamBytes / copy, 1.0 * kStreamBytes / read, flops / gemm_seconds);
}

}  // namespace quire::bench

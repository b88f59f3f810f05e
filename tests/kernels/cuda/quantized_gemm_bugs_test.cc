// Plants bugs in the products with quantised weights with quantized_gemm_bugs.py. The emulator or the comparison with
// the reference must find each of them.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cuda/expect_bugs_found.h"
#include "kernels/cuda/products/quantize_rows.h"
#include "kernels/cuda/quantized_gemm_case.h"
#include "planted_bugs.h"
#include "simt/expect_error.h"
#include "tests/kernels/numbers.h"
#include "tests/support/expect_near.h"
#include "tests/support/random.h"

namespace quire::kernels {
namespace {

std::string WrongProduct(const QuantizedCase& c) {
  QuantizedGemm(CudaStream{}, c.Params());
  const std::string far = test::FirstFar(c.Output(), c.Expected(), c.Tolerance());
  if (!far.empty()) return c.Name() + ": " + far;
  return c.WroteBetweenRows() ? c.Name() + ": wrote between the rows of the output" : "";
}

std::string WrongExpansion(const QuantizedCase& c) {
  const QuantizedMatrix weight = c.Params().weight;
  const simt::DeviceBuffer<uint16_t> rows((weight.n - 3) * weight.k);
  ExpandQuantized(CudaStream{}, {NumberType::kF16, weight, 2, weight.n - 3, rows.data()});
  for (int64_t i = 0; i < rows.size(); ++i) {
    if (reference::ReadNumber(rows.data(), NumberType::kF16, i) != c.Weight(2 + i / weight.k, i % weight.k))
      return c.Name() + ": expanded number " + std::to_string(i);
  }
  return "";
}

/// Converts three rows to FP8. Describes the first wrong number; empty if there is none.
std::string WrongRows() {
  constexpr int64_t kM = 3, kK = 2064, kStride = kK + 8;
  test::Random random(9);
  const simt::DeviceBuffer<uint16_t> x(kM * kStride);
  const simt::DeviceBuffer<std::byte> out(kM * kK);
  const simt::DeviceBuffer<float> scales(kM);
  for (int64_t i = 0; i < x.size(); ++i)
    reference::WriteNumber(x.data(), NumberType::kBF16, i,
                           i == 2 * kStride + 5 ? -9.0 : random.Signed() * (1 + i / kStride));
  simt::MarkWritten(x.data());
  QuantizeRows(CudaStream{}, {NumberType::kBF16, x.data(), kStride, kM, kK, out.data(), scales.data()});
  for (int64_t i = 0; i < kM * kK; ++i) {
    const double want = reference::ReadNumber(x.data(), NumberType::kBF16, i / kK * kStride + i % kK);
    const double got = reference::ReadNumber(out.data(), NumberType::kFp8E4M3, i) * scales[i / kK];
    if (!(std::abs(got - want) <= std::abs(want) / 16 + 1e-5)) return "FP8 of number " + std::to_string(i);
  }
  return "";
}

/// Describes the first wrong launch; empty if there is none.
std::string Hunt() {
  try {
    if (std::string wrong = WrongRows(); !wrong.empty()) return wrong;
  } catch (const simt::SimtError& error) {
    return error.what();
  }
  uint64_t seed = 1;
  for (const NumberType type : {NumberType::kQ4_1, NumberType::kQ8_0, NumberType::kMxFp4, NumberType::kQ6_K,
                                NumberType::kQ5_K, NumberType::kFp8E4M3, NumberType::kFp8Groups}) {
    for (const int64_t k : {96, 1184}) {
      const QuantizedCase c({NumberType::kF16, type, k == 96 ? 3 : 9, 19, k, 0.5f}, ++seed);
      simt::WithOptions options({.seed = seed});
      try {
        for (const std::string& wrong : {WrongProduct(c), WrongExpansion(c)}) {
          if (!wrong.empty()) return wrong;
        }
      } catch (const simt::SimtError& error) {
        return error.what();
      }
    }
  }
  return "";
}

TEST(QuantizedGemmBugsTest, Hunt_FindsEveryPlantedBug_AndNothingWithoutBugs) {
  ExpectEveryBugIsFound(kPlantedBugs, Hunt);
}

}  // namespace
}  // namespace quire::kernels

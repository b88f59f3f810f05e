// Implements worker/cuda/device/gemm.h without a GPU: plain loops with fp32 sums, as work of the emulated stream.
#include "worker/cuda/emulated_gemm.h"

#include <algorithm>
#include <vector>

#include "comm/base/error.h"
#include "simt/numeric.h"
#include "simt/submit.h"
#include "worker/cuda/device/gemm.h"

namespace quire {

std::multiset<int64_t> test::tuned_rows;
bool test::has_fp8_products = true;

namespace {

/// Adds the products of each sum in the order of their columns. The sums of kTogether rows of the weight are added at
/// the same time, as a vector.
template <class T>
void Multiply(const GemmParams& p) {
  constexpr int64_t kTogether = 4;
  using Sums [[gnu::vector_size(kTogether * sizeof(float))]] = float;
  const T* x = static_cast<const T*>(p.x);
  const T* weight = static_cast<const T*>(p.weight);
  std::vector<float> inputs(static_cast<size_t>(p.m * p.k));
  std::vector<Sums> weights(static_cast<size_t>(p.k));
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t c = 0; c < p.k; ++c) inputs[static_cast<size_t>(i * p.k + c)] = simt::ToFloat(x[i * p.x_stride + c]);
  for (int64_t begin = 0; begin < p.n; begin += kTogether) {
    const int64_t count = std::min(kTogether, p.n - begin);
    for (int64_t j = 0; j < count; ++j)
      for (int64_t c = 0; c < p.k; ++c)
        weights[static_cast<size_t>(c)][j] = simt::ToFloat(weight[(begin + j) * p.k + c]);
    for (int64_t i = 0; i < p.m; ++i) {
      Sums sums = {};
      for (int64_t c = 0; c < p.k; ++c)
        sums += inputs[static_cast<size_t>(i * p.k + c)] * weights[static_cast<size_t>(c)];
      for (int64_t j = 0; j < count; ++j) {
        const float sum = sums[j] * p.scale;
        const int64_t at = i * p.y_stride + begin + j;
        if (p.float_result) {
          static_cast<float*>(p.y)[at] = sum;
        } else {
          static_cast<T*>(p.y)[at] = simt::FromFloat<T>(sum);
        }
      }
    }
  }
}

template <class T>
void MultiplyBatch(const GemmParams& p) {
  GemmParams one = p;
  for (int64_t i = 0; i < p.batch; ++i) {
    one.x = static_cast<const T*>(p.x) + i * p.x_apart;
    one.weight = static_cast<const T*>(p.weight) + i * p.weight_apart;
    one.y = static_cast<std::byte*>(p.y) + i * p.y_apart * (p.float_result ? 4 : static_cast<int64_t>(sizeof(T)));
    Multiply<T>(one);
  }
}

/// Multiplies x and weight in FP8, each with a scale for each row.
template <class T>
void MultiplyFp8(const GemmParams& p) {
  const auto *x = static_cast<const simt::Fp8E4M3*>(p.x), *weight = static_cast<const simt::Fp8E4M3*>(p.weight);
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      float sum = 0;
      for (int64_t c = 0; c < p.k; ++c)
        sum += simt::ToFloat(x[i * p.x_stride + c]) * simt::ToFloat(weight[j * p.k + c]);
      static_cast<T*>(p.y)[i * p.y_stride + j] = simt::FromFloat<T>(sum * p.scale * p.x_scales[i] * p.weight_scales[j]);
    }
  }
}

}  // namespace

struct Gemm::Plans {};

Gemm::Gemm(Device& device) : device_(device) {}
Gemm::~Gemm() = default;

void Gemm::Run(const GemmParams& p) {
  simt::Submit([p] {
    if (p.x_scales != nullptr) {
      return p.dtype == NumberType::kF16 ? MultiplyFp8<simt::Half>(p) : MultiplyFp8<simt::BFloat16>(p);
    }
    switch (p.dtype) {
      case NumberType::kF32:
        return MultiplyBatch<float>(p);
      case NumberType::kF16:
        return MultiplyBatch<simt::Half>(p);
      case NumberType::kBF16:
        return MultiplyBatch<simt::BFloat16>(p);
      default:
        QUIRE_CHECK(false, "a product of {} numbers", LayoutOf(p.dtype).name);
    }
  });
}

bool Gemm::Has(const GemmParams& p) const { return p.x_scales == nullptr || test::has_fp8_products; }

double Gemm::Tune(const GemmParams& p, std::span<const void* const>) {
  test::tuned_rows.insert(p.m);
  return 0;
}

}  // namespace quire

#include "kernels/cuda/quantized_gemm_case.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/kernels/numbers.h"
#include "tests/support/random.h"

namespace quire::kernels {

namespace {

using reference::ReadNumber;
using reference::WriteNumber;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

void WriteScales(NumberType type, int64_t count, test::Random& random, std::byte* to) {
  for (int64_t i = 0; i < count; ++i) {
    if (IsFp8(type)) {
      WriteNumber(to, NumberType::kF32, i, random.Signed() / 128);
    } else if (type == NumberType::kMxFp4) {
      WriteNumber(to, NumberType::kBF16, i, std::ldexp(1.0f, -static_cast<int>(random.Below(6))));
    } else if (type == NumberType::kQ4_1 || type == NumberType::kQ5_K) {
      WriteNumber(to, NumberType::kF16, i, random.Signed() / (i % 2 == 0 ? 8 : 1));
    } else {
      WriteNumber(to, NumberType::kF16, i, random.Signed() / 128);
    }
  }
}

/// Returns number i of a row of a weight, before it is rounded.
double NumberOf(const QuantizedMatrix& weight, int64_t row, int64_t i) {
  const NumberType type = weight.type;
  const QuantizedParts parts = PartsOf(type, weight.n, weight.k);
  const auto* ints = static_cast<const std::byte*>(weight.data);
  const std::byte *highs = ints + parts.ints, *scales = highs + parts.highs;
  const int64_t at = row * weight.k + i;
  if (IsFp8(type)) {
    const int64_t groups = (weight.k + 127) / 128;
    const double d = ReadNumber(scales, NumberType::kF32, type == NumberType::kFp8E4M3 ? row : row * groups + i / 128);
    return d * ReadNumber(ints, NumberType::kFp8E4M3, at);
  }
  constexpr double kE2M1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const auto scale = [&](int64_t block) { return ReadNumber(scales, NumberType::kF16, block); };
  if (type == NumberType::kQ8_0) return scale(at / 32) * (std::to_integer<int>(ints[at]) - 128);
  const int nibble = std::to_integer<int>(ints[at / 2]) >> (at % 2 * 4) & 15;
  if (type == NumberType::kQ4_1) return scale(at / 32 * 2) * nibble + scale(at / 32 * 2 + 1);
  if (HasSixBits(type)) {
    const int number = nibble | (std::to_integer<int>(highs[at / 4]) >> (at % 4 * 2) & 3) << 4;
    if (type == NumberType::kQ6_K) return scale(at / 16) * (number - 32);
    return scale(at / 32 * 2) * number + scale(at / 32 * 2 + 1);
  }
  return ReadNumber(scales, NumberType::kBF16, at / 32) * kE2M1[nibble & 7] * (nibble < 8 ? 1 : -1);
}

}  // namespace

void FillQuantized(NumberType type, int64_t n, int64_t k, uint64_t seed, std::byte* to) {
  test::Random random(seed);
  const QuantizedParts parts = PartsOf(type, n, k);
  for (int64_t i = 0; i < parts.ints + parts.highs; ++i) {
    const int64_t byte = random.Below(256);
    to[i] = static_cast<std::byte>(IsFp8(type) && byte % 128 == 127 ? byte - 1 : byte);  // avoids NaN
  }
  WriteScales(type, parts.scales / (IsFp8(type) ? 4 : 2), random, to + parts.ints + parts.highs);
}

double QuantizedNumber(const QuantizedMatrix& weight, NumberType dtype, int64_t row, int64_t i) {
  float number = 0;  // large enough for both types
  WriteNumber(&number, dtype, 0, static_cast<float>(NumberOf(weight, row, i)));
  return ReadNumber(&number, dtype, 0);
}

QuantizedCase::QuantizedCase(const QuantizedShape& shape, uint64_t seed)
    : shape_(shape),
      x_(((shape_.m - 1) * XStride() + shape_.k) * 2),
      weight_(QuantizedBytes(shape_.type, shape_.n, shape_.k)),
      out_(((shape_.m - 1) * OutStride() + shape_.n) * 2) {
  test::Random random(seed);
  for (int64_t row = 0; row < shape_.m; ++row) {
    const bool last = row + 1 == shape_.m;
    for (int64_t i = 0; i < (last ? shape_.k : XStride()); ++i)
      WriteNumber(x_.data(), shape_.dtype, row * XStride() + i, i < shape_.k ? random.Signed() : kNaN);
    for (int64_t i = 0; i < (last ? shape_.n : OutStride()); ++i)
      WriteNumber(out_.data(), shape_.dtype, row * OutStride() + i, kNaN);
  }
  FillQuantized(shape_.type, shape_.n, shape_.k, seed + 1'000'000, weight_.data());
  simt::MarkWritten(x_.data());
  simt::MarkWritten(out_.data());
}

QuantizedGemmParams QuantizedCase::Params() const {
  return {.dtype = shape_.dtype,
          .x = x_.data(),
          .x_stride = XStride(),
          .weight = {shape_.type, weight_.data(), shape_.n, shape_.k},
          .out = out_.data(),
          .out_stride = OutStride(),
          .m = shape_.m,
          .scale = shape_.scale};
}

double QuantizedCase::Weight(int64_t row, int64_t i) const {
  return QuantizedNumber(Params().weight, shape_.dtype, row, i);
}

std::vector<double> QuantizedCase::Expected() const {
  std::vector<double> weight;
  for (int64_t j = 0; j < shape_.n; ++j) {
    for (int64_t i = 0; i < shape_.k; ++i) weight.push_back(Weight(j, i));
  }
  std::vector<double> out;
  for (int64_t row = 0; row < shape_.m; ++row) {
    for (int64_t j = 0; j < shape_.n; ++j) {
      double sum = 0;
      for (int64_t i = 0; i < shape_.k; ++i)
        sum += ReadNumber(x_.data(), shape_.dtype, row * XStride() + i) * weight[static_cast<size_t>(j * shape_.k + i)];
      out.push_back(sum * shape_.scale);
    }
  }
  return out;
}

std::vector<float> QuantizedCase::Output() const {
  std::vector<float> out;
  for (int64_t row = 0; row < shape_.m; ++row) {
    for (int64_t j = 0; j < shape_.n; ++j)
      out.push_back(static_cast<float>(ReadNumber(out_.data(), shape_.dtype, row * OutStride() + j)));
  }
  return out;
}

bool QuantizedCase::WroteBetweenRows() const {
  for (int64_t row = 0; row + 1 < shape_.m; ++row) {
    for (int64_t i = shape_.n; i < OutStride(); ++i) {
      if (!std::isnan(ReadNumber(out_.data(), shape_.dtype, row * OutStride() + i))) return true;
    }
  }
  return false;
}

std::string QuantizedCase::Name() const {
  return std::string(LayoutOf(shape_.type).name) + " in " + LayoutOf(shape_.dtype).name + ", m " +
         std::to_string(shape_.m) + ", n " + std::to_string(shape_.n) + ", k " + std::to_string(shape_.k);
}

double QuantizedCase::Tolerance() const {
  constexpr double kSums = 2e-5;  // tolerance for sums of up to some thousand products in fp32
  return kSums + (shape_.dtype == NumberType::kF16 ? 0x1p-11 : 0x1p-8);
}

void QuantizedCase::CopyRow(int64_t i, const QuantizedCase& other, int64_t row) {
  for (int64_t c = 0; c < shape_.k; ++c) {
    WriteNumber(x_.data(), shape_.dtype, i * XStride() + c,
                ReadNumber(other.x_.data(), shape_.dtype, row * other.XStride() + c));
  }
}

}  // namespace quire::kernels

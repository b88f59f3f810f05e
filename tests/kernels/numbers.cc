#include "tests/kernels/numbers.h"

#include <cstdlib>

#include "simt/numeric.h"

namespace quire::kernels {

namespace reference {

double ReadNumber(const void* array, NumberType type, int64_t i) {
  switch (type) {
    case NumberType::kF32:
      return static_cast<const float*>(array)[i];
    case NumberType::kF16:
      return simt::ToFloat(static_cast<const simt::Half*>(array)[i]);
    case NumberType::kBF16:
      return simt::ToFloat(static_cast<const simt::BFloat16*>(array)[i]);
    case NumberType::kFp8E4M3:
      return simt::ToFloat(static_cast<const simt::Fp8E4M3*>(array)[i]);
    default:
      std::abort();
  }
}

void WriteNumber(void* array, NumberType type, int64_t i, double value) {
  const auto x = static_cast<float>(value);
  switch (type) {
    case NumberType::kF32:
      static_cast<float*>(array)[i] = x;
      break;
    case NumberType::kF16:
      static_cast<simt::Half*>(array)[i] = simt::FromFloat<simt::Half>(x);
      break;
    case NumberType::kBF16:
      static_cast<simt::BFloat16*>(array)[i] = simt::FromFloat<simt::BFloat16>(x);
      break;
    case NumberType::kFp8E4M3:
      static_cast<simt::Fp8E4M3*>(array)[i] = simt::FromFloat<simt::Fp8E4M3>(x);
      break;
    default:
      std::abort();
  }
}

}  // namespace reference

Numbers Numbers::Of(NumberType type, int64_t count, test::Random& random, double size) {
  Numbers numbers(type, count);
  for (int64_t i = 0; i < count; ++i) numbers.Set(i, size * random.Signed());
  return numbers;
}

Numbers Numbers::Of(NumberType type, const std::vector<double>& values) {
  Numbers numbers(type, static_cast<int64_t>(values.size()));
  for (int64_t i = 0; i < numbers.count; ++i) numbers.Set(i, values[static_cast<size_t>(i)]);
  return numbers;
}

std::vector<double> Numbers::Slice(int64_t begin, int64_t n) const {
  std::vector<double> out;
  for (int64_t i = 0; i < n; ++i) out.push_back((*this)[begin + i]);
  return out;
}

std::vector<float> Numbers::Floats() const {
  std::vector<float> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(static_cast<float>((*this)[i]));
  return out;
}

}  // namespace quire::kernels

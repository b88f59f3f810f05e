#include "worker/cuda/sampling/row_fetcher.h"

#include <bit>
#include <cstring>

namespace quire {

namespace {

/// Reads the number of type `dtype` at `in`.
float NumberAt(NumberType dtype, const std::byte* in) {
  if (dtype == NumberType::kF32) {
    float value;
    std::memcpy(&value, in, sizeof(value));
    return value;
  }
  if (dtype == NumberType::kF16) {
    _Float16 value;
    std::memcpy(&value, in, sizeof(value));
    return static_cast<float>(value);
  }
  uint16_t upper;  // bfloat16 is the upper half of a float
  std::memcpy(&upper, in, sizeof(upper));
  return std::bit_cast<float>(uint32_t{upper} << 16);
}

}  // namespace

RowFetcher::RowFetcher(Device& device, NumberType dtype, int64_t hidden)
    : device_(device),
      dtype_(dtype),
      hidden_(hidden),
      staging_(device.AllocateHost(Pooler::kPooledAtOnce * hidden * ByteSize(dtype), "rows that are pooled")) {}

std::span<const float> RowFetcher::Fetch(const std::byte* rows, int64_t count) {
  const int64_t size = ByteSize(dtype_);
  device_.CopyToHost(staging_.as(), rows, count * hidden_ * size);
  device_.Synchronize();
  values_.clear();
  for (int64_t i = 0; i < count * hidden_; ++i) values_.push_back(NumberAt(dtype_, staging_.as() + i * size));
  return values_;
}

}  // namespace quire

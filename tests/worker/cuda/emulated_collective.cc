#include "worker/cuda/emulated_collective.h"

#include <bit>
#include <vector>

#include "comm/base/error.h"
#include "simt/numeric.h"
#include "simt/submit.h"

namespace quire::test {

namespace {

template <class T>
void SumOver(Collective& host, T* data, int64_t count) {
  std::vector<float> part(static_cast<size_t>(count)), sums(part.size());
  for (int64_t i = 0; i < count; ++i) part[static_cast<size_t>(i)] = simt::ToFloat(data[i]);
  host.AllReduceAdd(part, sums);
  for (int64_t i = 0; i < count; ++i) data[i] = simt::FromFloat<T>(sums[static_cast<size_t>(i)]);
}

}  // namespace

void EmulatedCollective::Connect(bool gathers, int64_t bytes) {
  const std::pair<bool, int> way{gathers, std::bit_width(static_cast<uint64_t>(bytes))};
  if (simt::Recording() == nullptr) {
    connected_.insert(way);
  } else if (connected_.count(way) == 0) {
    Fail("a {} of {} bytes is the first of its size, while a graph is recorded", gathers ? "gather" : "sum", bytes);
  }
}

void EmulatedCollective::AllReduceSum(void* data, int64_t count, NumberType type, void*) {
  Connect(false, count * ByteSize(type));
  simt::Submit([this, data, count, type] {
    switch (type) {
      case NumberType::kF32:
        return SumOver(host_, static_cast<float*>(data), count);
      case NumberType::kF16:
        return SumOver(host_, static_cast<simt::Half*>(data), count);
      case NumberType::kBF16:
        return SumOver(host_, static_cast<simt::BFloat16*>(data), count);
      default:
        QUIRE_CHECK(false, "a sum of {} numbers", LayoutOf(type).name);
    }
  });
}

void EmulatedCollective::AllReduceRmsNorm(void* partial, kernels::RmsNormParams norm, void* stream) {
  AllReduceSum(partial, norm.num_tokens * norm.hidden, norm.dtype, stream);
  norm.delta = partial;
  kernels::RmsNorm({}, norm);
}

void EmulatedCollective::AllGather(const void* in, void* out, int64_t bytes_per_rank, void*) {
  Connect(true, bytes_per_rank);
  simt::Submit([this, in, out, bytes_per_rank] {
    const auto bytes = static_cast<size_t>(bytes_per_rank);
    const std::vector<size_t> counts(static_cast<size_t>(host_.size()), bytes);
    host_.AllGather({static_cast<const std::byte*>(in), bytes}, counts,
                    {static_cast<std::byte*>(out), bytes * counts.size()});
  });
}

}  // namespace quire::test

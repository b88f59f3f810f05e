#include "kernels/cuda/one_shot_case.h"

#include <cstring>

#include "tests/kernels/numbers.h"
#include "tests/support/random.h"

namespace quire::kernels {

namespace {

using Bytes = std::vector<std::byte>;

/// Returns a rank's input to an operation. `what` is the index of the input array.
Bytes Numbers(const OneShotCase& c, int operation, int rank, int what, int64_t count) {
  test::Random random(static_cast<uint64_t>(((operation * 16 + rank) * 16) + what));
  Bytes bytes(static_cast<size_t>(count * ByteSize(c.dtype)));
  for (int64_t i = 0; i < count; ++i) reference::WriteNumber(bytes.data(), c.dtype, i, 2 * random.Signed());
  return bytes;
}

simt::DeviceBuffer<std::byte> OnDevice(const Bytes& bytes) { return {bytes}; }

Bytes ExpectedSum(const OneShotCase& c, int operation, int64_t count) {
  std::vector<float> total(static_cast<size_t>(count));
  for (int rank = 0; rank < c.ranks; ++rank) {
    const Bytes part = Numbers(c, operation, rank, 0, count);
    for (int64_t i = 0; i < count; ++i) {
      const auto x = static_cast<float>(reference::ReadNumber(part.data(), c.dtype, i));
      total[static_cast<size_t>(i)] = rank == 0 ? x : total[static_cast<size_t>(i)] + x;
    }
  }
  Bytes sum(static_cast<size_t>(count * ByteSize(c.dtype)));
  for (int64_t i = 0; i < count; ++i) {
    reference::WriteNumber(sum.data(), c.dtype, i, static_cast<double>(total[static_cast<size_t>(i)]));
  }
  return sum;
}

std::string Compare(const OneShotCase& c, const simt::DeviceBuffer<std::byte>& actual, const Bytes& expected,
                    const std::string& what) {
  for (int64_t i = 0; i < static_cast<int64_t>(expected.size()) / ByteSize(c.dtype); ++i) {
    if (std::memcmp(actual.data() + i * ByteSize(c.dtype), expected.data() + i * ByteSize(c.dtype),
                    static_cast<size_t>(ByteSize(c.dtype))) == 0) {
      continue;
    }
    return what + ": element " + std::to_string(i) + " is " +
           std::to_string(reference::ReadNumber(actual.data(), c.dtype, i)) + " instead of " +
           std::to_string(reference::ReadNumber(expected.data(), c.dtype, i));
  }
  return "";
}

std::string Sum(const OneShotCase& c, int operation, const OneShotGroup& group) {
  const int64_t count = c.counts[static_cast<size_t>(operation)];
  const auto in = OnDevice(Numbers(c, operation, group.rank, 0, count));
  const auto other = OnDevice(Bytes(static_cast<size_t>(count * ByteSize(c.dtype)), std::byte{0xff}));
  const auto& out = c.in_place ? in : other;
  OneShotAllReduce({}, {group, c.dtype, in.data(), out.data(), count});
  return Compare(c, out, ExpectedSum(c, operation, count), "sum");
}

std::string SumAndNormalise(const OneShotCase& c, int operation, const OneShotGroup& group) {
  const int64_t rows = c.counts[static_cast<size_t>(operation)], count = rows * c.hidden;
  const auto part = OnDevice(Numbers(c, operation, group.rank, 0, count));
  const auto sum = OnDevice(ExpectedSum(c, operation, count));
  const auto residual = OnDevice(Numbers(c, operation, 0, 1, count)), weight = OnDevice(Numbers(c, 0, 0, 2, c.hidden));
  const auto expected_residual = OnDevice(Numbers(c, operation, 0, 1, count));
  const Bytes nan(static_cast<size_t>(count * ByteSize(c.dtype)), std::byte{0xff});
  const auto out = OnDevice(nan), expected_out = OnDevice(nan);
  OneShotAllReduceRmsNorm(
      {}, {group, {c.dtype, residual.data(), part.data(), weight.data(), out.data(), rows, c.hidden, 1e-5f}});
  RmsNorm(CudaStream{},
          {c.dtype, expected_residual.data(), sum.data(), weight.data(), expected_out.data(), rows, c.hidden, 1e-5f});
  const auto bytes = [](const simt::DeviceBuffer<std::byte>& b) { return Bytes(b.span().begin(), b.span().end()); };
  const std::string wrong = Compare(c, residual, bytes(expected_residual), "residual");
  return wrong.empty() ? Compare(c, out, bytes(expected_out), "out") : wrong;
}

}  // namespace

std::string RunOneShot(const OneShotCase& c) {
  int64_t longest = 16;
  for (const int64_t count : c.counts) longest = std::max(longest, count * std::max<int64_t>(c.hidden, 1));
  OneShotRanks ranks(c.ranks, (longest * ByteSize(c.dtype) + 15) / 16 * 16, c.first_operation);
  std::vector<std::string> wrong(static_cast<size_t>(c.ranks));
  ranks.Run(static_cast<int>(c.counts.size()), c.schedule, [&](int operation, const OneShotGroup& group) {
    const std::string what = (c.hidden == 0 ? Sum : SumAndNormalise)(c, operation, group);
    std::string& mine = wrong[static_cast<size_t>(group.rank)];
    if (mine.empty() && !what.empty()) mine = "operation " + std::to_string(operation) + ", " + what;
  });
  if (ranks.aborted()) return "the group was stuck";
  for (int r = 0; r < c.ranks; ++r) {
    if (!wrong[static_cast<size_t>(r)].empty())
      return "rank " + std::to_string(r) + ", " + wrong[static_cast<size_t>(r)];
  }
  return "";
}

}  // namespace quire::kernels

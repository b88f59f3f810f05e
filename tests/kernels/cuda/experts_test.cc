// Mixtures of experts over the emulator.
#include "kernels/cuda/experts/experts.h"

#include <gtest/gtest.h>

#include "kernels/cuda/decode_reference.h"
#include "simt/device_buffer.h"
#include "tests/kernels/expert_case.h"
#include "tests/support/random.h"

namespace quire::kernels {
namespace {

using reference::ReadNumber;
using reference::WriteNumber;
using simt::DeviceBuffer;

constexpr NumberType kTypes[] = {NumberType::kF32, NumberType::kF16, NumberType::kBF16};

double Tolerance(NumberType type) {
  return type == NumberType::kF32 ? 2e-6 : type == NumberType::kF16 ? 0x1p-11 + 4e-6 : 0x1p-8 + 4e-6;
}

/// Numbers of a type in device memory.
struct Numbers {
  Numbers(NumberType t, int64_t n) : type(t), count(n), bytes(n * ByteSize(t)) {}
  static Numbers Of(NumberType type, int64_t count, test::Random& random) {
    Numbers numbers(type, count);
    for (int64_t i = 0; i < count; ++i) WriteNumber(numbers.data(), type, i, random.Signed());
    return numbers;
  }
  void* data() const { return bytes.data(); }
  double operator[](int64_t i) const { return ReadNumber(data(), type, i); }
  std::vector<float> Floats() const {
    std::vector<float> out;
    for (int64_t i = 0; i < count; ++i) out.push_back(static_cast<float>((*this)[i]));
    return out;
  }

  NumberType type;
  int64_t count;
  DeviceBuffer<std::byte> bytes;
};

TEST(CudaRouteExpertsTest, EqualsReference) { test_case::ExpectRoutings<DeviceBuffer>(CudaStream{}); }

TEST(CudaRouteExpertsTest, TiesGoToTheLowerNumber) {
  test_case::ExpectTiesToGoToTheLowerNumber<DeviceBuffer>(CudaStream{});
}

TEST(CudaRouteExpertsTest, EveryTokenHasDifferentExperts) {
  test_case::ExpectDifferentExpertsOfNaN<DeviceBuffer>(CudaStream{});
}

TEST(CudaGroupByExpertTest, OrdersPairsByExpert) {
  for (const auto& [pairs, experts] : {std::pair{0, 4}, {1, 1}, {7, 3}, {600, 60}, {300, 256}}) {
    test_case::ExpectGroups<DeviceBuffer>(CudaStream{}, pairs, experts);
  }
}

struct Shape {
  int64_t experts, per_token, tokens, n, k;
  bool gathers, biased;
};

/// Each row of a product whose unused experts are NaN, the last one's too.
void ExpectProduct(NumberType dtype, const Shape& s) {
  test::Random random(static_cast<uint64_t>(s.n + s.k));
  const int64_t pairs = s.tokens * s.per_token;
  std::vector<int32_t> of_pair;  // even experts only
  for (int64_t i = 0; i < pairs; ++i) {
    of_pair.push_back(static_cast<int32_t>(random.Below((s.experts + 1) / 2) * 2));
  }
  const DeviceBuffer<int32_t> experts(of_pair), start(s.experts + 1), pair_of_row(pairs), row_of_pair(pairs);
  GroupByExpert(CudaStream{}, {experts.data(), pairs, s.experts, start.data(), pair_of_row.data(), row_of_pair.data()});
  const Numbers x = Numbers::Of(dtype, (s.gathers ? s.tokens : pairs) * s.k, random);
  const Numbers weight = Numbers::Of(dtype, s.experts * s.n * s.k, random);
  const Numbers bias = Numbers::Of(dtype, s.experts * s.n, random);
  for (int64_t e = 1; e < s.experts; e += 2) {
    for (int64_t i = 0; i < s.n * s.k; ++i) WriteNumber(weight.data(), dtype, e * s.n * s.k + i, __builtin_nan(""));
  }
  const Numbers y(dtype, pairs * s.n);
  ExpertMatmul(CudaStream{}, {.dtype = dtype,
                              .x = x.data(),
                              .pair_of_row = s.gathers ? pair_of_row.data() : nullptr,
                              .pairs_per_x_row = s.per_token,
                              .start = start.data(),
                              .weight = weight.data(),
                              .bias = s.biased ? bias.data() : nullptr,
                              .y = y.data(),
                              .num_rows = pairs,
                              .num_experts = s.experts,
                              .n = s.n,
                              .k = s.k});
  std::vector<double> want;
  for (int64_t r = 0; r < pairs; ++r) {
    const int64_t pair = pair_of_row[r], expert = of_pair[static_cast<size_t>(pair)];
    const int64_t from = (s.gathers ? pair / s.per_token : r) * s.k;
    for (int64_t j = 0; j < s.n; ++j) {
      double sum = s.biased ? bias[expert * s.n + j] : 0;
      for (int64_t c = 0; c < s.k; ++c) sum += x[from + c] * weight[(expert * s.n + j) * s.k + c];
      want.push_back(sum);
    }
  }
  test::ExpectNear(y.Floats(), want, Tolerance(dtype) + 1e-5,
                   "n " + std::to_string(s.n) + ", k " + std::to_string(s.k));
}

TEST(CudaExpertMatmulTest, EqualsReferenceAndReadsChosenExpertsOnly) {
  const Shape shapes[] = {
      {4, 2, 1, 64, 64, true, false},    // one token: tiles of 8 rows
      {8, 2, 5, 80, 72, true, true},     // neither the tile's rows nor K come out even
      {3, 1, 9, 16, 8, false, false},    // less than a step
      {3, 2, 20, 96, 200, true, false},  // more than 8 rows for each expert: tiles of 32
      {2, 3, 40, 33, 136, false, true},  // several tiles of 32 of one expert
  };
  for (const NumberType dtype : kTypes) {
    for (const Shape& shape : shapes) ExpectProduct(dtype, shape);
  }
}

// What was decoded with others must be what is decoded alone.
TEST(CudaExpertMatmulTest, ARowDoesNotDependOnItsNeighbours) {
  for (const NumberType dtype : kTypes) {
    test::Random random(3);
    const int64_t rows = 70, n = 64, k = 328;
    const Numbers x = Numbers::Of(dtype, rows * k, random), weight = Numbers::Of(dtype, n * k, random);
    const Numbers together(dtype, rows * n), alone(dtype, n);
    const DeviceBuffer<int32_t> all(std::vector<int32_t>{0, static_cast<int32_t>(rows)}),
        one(std::vector<int32_t>{0, 1});
    const auto run = [&](const void* from, int64_t count, const int32_t* start, void* to) {
      ExpertMatmul(CudaStream{}, {dtype, from, nullptr, 1, start, weight.data(), nullptr, to, count, 1, n, k});
    };
    run(x.data(), rows, all.data(), together.data());
    for (const int64_t row : {0, 33, 69}) {
      run(static_cast<std::byte*>(x.data()) + row * k * ByteSize(dtype), 1, one.data(), alone.data());
      for (int64_t j = 0; j < n; ++j) ASSERT_EQ(alone[j], together[row * n + j]) << "row " << row << ", column " << j;
    }
  }
}

TEST(CudaCombineExpertsTest, WeighsRowsOfExpertsAndOfTheSharedOne) {
  for (const NumberType dtype : kTypes) {
    for (const bool shares : {false, true}) {
      for (const bool gated : {false, true}) {
        test::Random random(5);
        const int64_t tokens = 4, k = 3, stride = 9, columns = 2056;
        const Numbers rows = Numbers::Of(dtype, tokens * k * columns, random),
                      shared = Numbers::Of(dtype, tokens * columns, random), out(dtype, tokens * columns);
        const DeviceBuffer<float> weights(random.Floats(tokens * k)), gates(random.Floats(tokens * stride));
        const DeviceBuffer<int32_t> places(std::vector<int32_t>{3, 0, 7, 1, 2, 11, 4, 5, 6, 8, 10, 9});
        CombineExperts(CudaStream{},
                       {dtype, rows.data(), places.data(), weights.data(), shares ? shared.data() : nullptr,
                        gated ? gates.data() + 2 : nullptr, stride, out.data(), tokens, k, columns, 0.5f});
        std::vector<double> want;
        for (int64_t i = 0; i < tokens * columns; ++i) {
          const int64_t token = i / columns;
          const double gate = gated ? 1 / (1 + std::exp(-double{gates[token * stride + 2]})) : 1;
          double sum = shares ? gate * shared[i] : 0;
          for (int64_t j = token * k; j < (token + 1) * k; ++j) {
            sum += double{weights[j]} * rows[places[j] * columns + i % columns];
          }
          want.push_back(sum / 2);
        }
        test::ExpectNear(out.Floats(), want, Tolerance(dtype), "combined");
      }
    }
  }
}

}  // namespace
}  // namespace quire::kernels

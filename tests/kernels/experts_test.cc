// Tests products of rows that are grouped by expert, with packed weights.
#include <gtest/gtest.h>

#include <cstring>

#include "kernels/expert_matmul.h"
#include "kernels/route_experts.h"
#include "tests/kernels/packed_case.h"

namespace quire::kernels {
namespace {

using test::Pack;
using test::Random;
using test::RandomWeight;

struct Case {
  std::string name;
  NumberType type;
  Activations activations = Activations::kInt16;
};

/// Six experts with two weights each, and tokens that do not use all experts.
class ExpertMatmulTest : public testing::TestWithParam<Case> {
 protected:
  static constexpr int64_t kExperts = 6, kPerToken = 2, kRows[] = {37, 140}, kAll = 177;

  void SetUp() override {
    for (int64_t e = 0; e < kExperts; ++e) {
      for (const int64_t rows : kRows) {
        packed_.push_back(Pack(RandomWeight(GetParam().type, rows, cols_, random_).weight));
        weights_.push_back({GetParam().type, packed_.back().data(), rows, cols_});
      }
    }
    const int64_t pairs = static_cast<int64_t>(chosen_.size());
    start_.resize(kExperts + 1);
    pair_of_row_.resize(chosen_.size());
    row_of_pair_.resize(chosen_.size());
    GroupByExpert(CpuStream(1),
                  {chosen_.data(), pairs, kExperts, start_.data(), pair_of_row_.data(), row_of_pair_.data()});
    x_ = random_.Floats(pairs / kPerToken * cols_);
  }

  std::vector<float> Run(int threads, const std::vector<float>& bias = {}) {
    std::vector<float> y(chosen_.size() * kAll, -1.0f);
    ExpertMatmul(CpuStream(threads), {.x = x_.data(),
                                      .x_stride = cols_,
                                      .pair_of_row = pair_of_row_.data(),
                                      .pairs_per_x_row = kPerToken,
                                      .start = start_.data(),
                                      .weights = weights_.data(),
                                      .num_experts = kExperts,
                                      .num_weights = 2,
                                      .bias = bias.empty() ? nullptr : bias.data(),
                                      .y = y.data(),
                                      .activations = GetParam().activations});
    return y;
  }

  /// Returns row r of the product, computed by Matmul for this row only.
  std::vector<float> Alone(int64_t r) {
    const int32_t pair = pair_of_row_[static_cast<size_t>(r)];
    std::vector<float> y(kAll);
    Matmul(CpuStream(1), {x_.data() + pair / kPerToken * cols_, cols_,
                          &weights_[static_cast<size_t>(chosen_[static_cast<size_t>(pair)]) * 2], 2, y.data(), kAll, 1,
                          GetParam().activations});
    return y;
  }

  int64_t cols_ = 96;
  Random random_{7};
  // Experts 1 and 4 have no tokens, expert 3 has one, and expert 0 has many.
  std::vector<int32_t> chosen_ = {0, 2, 0, 5, 2, 0, 0, 5, 5, 0, 0, 2, 3, 0, 0, 5, 0, 2, 0, 5, 0, 2, 0, 5, 0, 2, 0, 5};
  std::vector<std::vector<std::byte>> packed_;
  std::vector<PackedWeight> weights_;
  std::vector<int32_t> start_, pair_of_row_, row_of_pair_;
  std::vector<float> x_;
};

TEST_P(ExpertMatmulTest, ExpertMatmul_GivesEveryRowTheSameBits_AsMatmulOfThisRowAlone) {
  for (const int threads : {1, 4}) {
    const std::vector<float> y = Run(threads);
    for (size_t r = 0; r < chosen_.size(); ++r) {
      const std::vector<float> want = Alone(static_cast<int64_t>(r));
      ASSERT_EQ(std::memcmp(&y[r * kAll], want.data(), kAll * sizeof(float)), 0) << "row " << r;
    }
  }
}

TEST_P(ExpertMatmulTest, ExpertMatmul_AddsTheBiasOfEachRowsExpert) {
  const std::vector<float> bias = random_.Floats(kExperts * kAll), plain = Run(1), y = Run(3, bias);
  for (size_t r = 0; r < chosen_.size(); ++r) {
    const auto expert = static_cast<size_t>(chosen_[static_cast<size_t>(pair_of_row_[r])]);
    for (size_t i = 0; i < kAll; ++i) {
      ASSERT_EQ(y[r * kAll + i], plain[r * kAll + i] + bias[expert * kAll + i]) << "row " << r << ", column " << i;
    }
  }
}

// The weights of experts without rows are null pointers: reading them would crash the test.
TEST_P(ExpertMatmulTest, ExpertMatmul_ReadsNoWeight_OfAnExpertWithoutRows) {
  const std::vector<float> want = Run(2);
  for (const size_t expert : {1, 4}) {
    for (const size_t w : {0, 1}) weights_[expert * 2 + w].data = nullptr;
  }
  EXPECT_EQ(Run(2), want);
}

INSTANTIATE_TEST_SUITE_P(Types, ExpertMatmulTest,
                         testing::Values(Case{"F32", NumberType::kF32}, Case{"F16", NumberType::kF16},
                                         Case{"BF16", NumberType::kBF16}, Case{"Q8_0", NumberType::kQ8_0},
                                         Case{"Q4_0", NumberType::kQ4_0}, Case{"Q4_1", NumberType::kQ4_1},
                                         Case{"Q8_0_Int8", NumberType::kQ8_0, Activations::kInt8},
                                         Case{"Q4_1_Int8", NumberType::kQ4_1, Activations::kInt8}),
                         [](const testing::TestParamInfo<Case>& test_case) { return test_case.param.name; });

TEST(ExpertMatmulWithoutColumnsTest, ExpertMatmul_GivesZeros_WhenWeightsHaveNoColumns) {
  const PackedWeight weight{NumberType::kF32, nullptr, 20, 0};
  const std::vector<int32_t> start = {0, 2};
  const float x = 0;
  std::vector<float> y(40, -1.0f);
  ExpertMatmul(CpuStream(1), {.x = &x,
                              .x_stride = 0,
                              .pair_of_row = nullptr,
                              .pairs_per_x_row = 1,
                              .start = start.data(),
                              .weights = &weight,
                              .num_experts = 1,
                              .num_weights = 1,
                              .bias = nullptr,
                              .y = y.data()});
  EXPECT_EQ(y, std::vector<float>(40, 0.0f));
}

}  // namespace
}  // namespace quire::kernels

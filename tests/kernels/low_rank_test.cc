// Tests low-rank products of grouped rows against fp64, and that a row's bits do not depend on other rows.
#include "kernels/low_rank.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>

#include "tests/kernels/packed_case.h"

namespace quire::kernels {
namespace {

using test::Pack;
using test::Random;
using test::RandomWeight;
using test::Storage;

/// Three groups with one to three parts of ranks 1 to 50 in several types. The rows of a group are neighbours or not,
/// and some rows are in no group.
class LowRankTest : public testing::Test {
 protected:
  static constexpr int64_t kCols = 70, kWidth = 333, kRows = 40, kStride = 340;

  struct Pair {
    Storage down, up;
    std::vector<std::byte> packed_down, packed_up;
  };

  LowRankPart Part(int64_t rank, int64_t column, int64_t rows, NumberType type = NumberType::kF32, float scale = 1) {
    Pair& p = pairs_.emplace_back();
    p.down = RandomWeight(type, rank, kCols, random_);
    p.up = RandomWeight(type, rows, rank, random_);
    p.packed_down = Pack(p.down.weight);
    p.packed_up = Pack(p.up.weight);
    return {{type, p.packed_down.data(), rank, kCols}, {type, p.packed_up.data(), rows, rank}, column, scale};
  }

  /// Returns a part that has the same `down` weight as `part`, so that both can use one product with it.
  LowRankPart Beside(const LowRankPart& part, int64_t column, int64_t rows) {
    LowRankPart other = Part(part.down.rows, column, rows);
    pairs_.back().down = pairs_[pairs_.size() - 2].down;
    pairs_.back().down.weight.data = pairs_.back().down.bytes.data();
    other.down = part.down;
    return other;
  }

  void SetUp() override {
    parts_.resize(3);  // the pairs' parts are made in the order of parts_
    parts_[0] = {Part(8, 0, 160, NumberType::kF16, 0.25f), Part(50, 160, 100), Part(1, 260, 73)};
    parts_[1] = {Part(17, 5, 250, NumberType::kBF16, -2.0f), Part(3, 255, 20)};
    parts_[1].push_back(Beside(parts_[1].back(), 275, 40));
    parts_[2] = {Part(16, 300, 1)};
    rows_ = {{0, 3, 4, 17, 39}, {5, 6, 7, 8}, {20, 30}};
    x_ = random_.Floats(kRows * kCols);
    before_ = random_.Floats(kRows * kStride);
  }

  std::vector<float> Run(const std::vector<size_t>& which, int threads) const {
    std::vector<LowRankGroup> groups;
    for (const size_t g : which)
      groups.push_back({parts_[g].data(), std::ssize(parts_[g]), rows_[g].data(), std::ssize(rows_[g]),
                        x_rows_.empty() ? nullptr : x_rows_[g].data()});
    std::vector<float> y = before_;
    AddLowRank(CpuStream(threads), {x_.data(), kCols, y.data(), kStride, groups.data(), std::ssize(groups)});
    return y;
  }

  static float At(const Storage& matrix, int64_t row, int64_t col) {
    float number = 0;
    DecodeRow(matrix.weight, row, col, 1, &number);
    return number;
  }

  Random random_{3};
  std::deque<Pair> pairs_;
  std::vector<std::vector<LowRankPart>> parts_;
  std::vector<std::vector<int32_t>> rows_, x_rows_;
  std::vector<float> x_, before_;
};

TEST_F(LowRankTest, AddLowRank_AddsEveryPartToItsColumns_AndLeavesOtherRowsAlone) {
  std::vector<double> want(before_.begin(), before_.end());
  size_t pair = 0;
  for (size_t g = 0; g < parts_.size(); ++g) {
    for (const LowRankPart& part : parts_[g]) {
      const Pair& p = pairs_[pair++];
      for (const int32_t row : rows_[g]) {
        for (int64_t r = 0; r < part.down.rows; ++r) {
          double inner = 0;
          for (int64_t k = 0; k < kCols; ++k)
            inner += double{At(p.down, r, k)} * double{x_[static_cast<size_t>(row * kCols + k)]};
          for (int64_t c = 0; c < part.up.rows; ++c)
            want[static_cast<size_t>(row * kStride + part.column + c)] +=
                double{part.scale} * inner * double{At(p.up, c, r)};
        }
      }
    }
  }
  const std::vector<float> y = Run({0, 1, 2}, 3);
  for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], want[i], 2e-4) << i / kStride << ", " << i % kStride;
  for (const int64_t row : {1, 2, 19, 38}) {
    for (int64_t c = 0; c < kStride; ++c) {
      const auto i = static_cast<size_t>(row * kStride + c);
      ASSERT_EQ(y[i], before_[i]);
    }
  }
}

TEST_F(LowRankTest, AddLowRank_GivesEveryRowTheSameBits_AloneAndBesideAnyOtherRows) {
  const std::vector<float> all = Run({0, 1, 2}, 1);
  EXPECT_EQ(Run({2, 1, 0}, 4), all);
  const std::vector<std::vector<int32_t>> together = rows_;
  for (size_t g = 0; g < together.size(); ++g) {
    for (const int32_t row : together[g]) {
      rows_[g] = {row};
      const std::vector<float> alone = Run({g}, 1);
      for (int64_t c = 0; c < kStride; ++c) {
        const auto i = static_cast<size_t>(row * kStride + c);
        ASSERT_EQ(alone[i], all[i]) << "row " << row << ", column " << c;
      }
    }
  }
}

TEST_F(LowRankTest, AddLowRank_ReadsOtherRowsOfX_WhenAGroupNamesThem) {
  const std::vector<float> right = Run({0, 1, 2}, 2), x = x_;
  // The row indices of x differ from those of y in every group, and several rows of y use the same row of x.
  x_rows_ = {{9, 9, 2, 0, 11}, {30, 31, 32, 33}, {12, 13}};
  for (size_t g = 0; g < rows_.size(); ++g) {
    for (size_t i = 0; i < rows_[g].size(); ++i)
      std::copy_n(x.data() + rows_[g][i] * kCols, kCols, x_.data() + x_rows_[g][i] * kCols);
  }
  const std::vector<float> moved = Run({0, 1, 2}, 2);
  for (size_t g = 0; g < rows_.size(); ++g) {
    for (size_t i = 0; i < rows_[g].size(); ++i) {
      if (g == 0 && i == 0) continue;  // the next row of the group has the same row of x, and overwrote it
      for (int64_t c = 0; c < kStride; ++c) {
        const auto at = static_cast<size_t>(rows_[g][i] * kStride + c);
        ASSERT_EQ(moved[at], right[at]) << g << ", " << i;
      }
    }
  }
}

}  // namespace
}  // namespace quire::kernels

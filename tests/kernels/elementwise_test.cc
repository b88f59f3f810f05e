#include <gtest/gtest.h>

#include <cmath>

#include "kernels/add_bias.h"
#include "kernels/gate_mul.h"
#include "kernels/head_norm.h"
#include "kernels/reference/reference.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "tests/support/expect_near.h"
#include "tests/support/random.h"

namespace quire::kernels {
namespace {

using test::Random;
using Doubles = std::vector<double>;

TEST(RmsNormTest, NormalisesEveryRow) {
  Random random(1);
  for (const int64_t hidden : {1, 7, 64, 576}) {
    const int64_t tokens = 5;
    const auto x = random.Floats(tokens * hidden), weight = random.Floats(hidden);
    std::vector<float> out(x.size());
    RmsNorm(CpuStream(2), {x.data(), weight.data(), out.data(), tokens, hidden, 1e-5f});
    Doubles expected;
    for (int64_t t = 0; t < tokens; ++t) {
      const Doubles row(x.begin() + t * hidden, x.begin() + (t + 1) * hidden);
      const auto normed = reference::RmsNorm(row, {weight.begin(), weight.end()}, 1e-5);
      expected.insert(expected.end(), normed.begin(), normed.end());
    }
    test::ExpectNear(out, expected, 2e-6, "hidden " + std::to_string(hidden));
  }
}

TEST(HeadNormTest, NormsEveryHeadOfAStridedRowAsARowOfItsOwn) {
  Random random(4);
  for (const int64_t dim : {1, 10, 64, 128}) {
    const int64_t tokens = 5, heads = 3, stride = 3 * dim + 7;
    const auto before = random.Floats(tokens * stride), weight = random.Floats(dim);
    auto rows = before;
    HeadNorm(CpuStream(2), {rows.data(), weight.data(), tokens, heads, dim, stride, 1e-5f});
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t h = 0; h < heads; ++h) {
        const float* head = before.data() + t * stride + h * dim;
        const std::span<const float> normed(rows.data() + t * stride + h * dim, static_cast<size_t>(dim));
        test::ExpectNear(normed, reference::RmsNorm({head, head + dim}, {weight.begin(), weight.end()}, 1e-5), 2e-6,
                         "dim " + std::to_string(dim));
        std::vector<float> row(static_cast<size_t>(dim));
        RmsNorm(CpuStream(1), {head, weight.data(), row.data(), 1, dim, 1e-5f});
        EXPECT_TRUE(std::ranges::equal(normed, row)) << "not the bits of a row";
      }
      for (int64_t i = t * stride + heads * dim; i < (t + 1) * stride; ++i) {  // what follows the heads is not touched
        EXPECT_EQ(rows[static_cast<size_t>(i)], before[static_cast<size_t>(i)]);
      }
    }
  }
}

TEST(AddBiasTest, AddsToTheColumnsOfEveryRow) {
  Random random(5);
  for (const int64_t columns : {1, 7, 64, 200}) {
    const int64_t tokens = 6, stride = columns + 5;
    const auto before = random.Floats(tokens * stride), bias = random.Floats(columns);
    auto rows = before;
    AddBias(CpuStream(2), {rows.data(), bias.data(), tokens, columns, stride});
    for (int64_t i = 0; i < tokens * stride; ++i) {
      const int64_t column = i % stride;
      const float added = column < columns ? bias[static_cast<size_t>(column)] : 0;
      EXPECT_EQ(rows[static_cast<size_t>(i)], before[static_cast<size_t>(i)] + added) << columns << ", " << i;
    }
  }
}

TEST(RopeTest, RotatesEveryHeadOfAStridedRow) {
  Random random(2);
  const int64_t dim = 20, heads = 3, stride = 80;
  const std::vector<int32_t> positions = {0, 9, 4};
  Doubles angles;
  std::vector<float> table;
  for (int64_t pos = 0; pos < 10; ++pos) {
    for (const bool sine : {false, true}) {
      for (int64_t i = 0; i < dim / 2; ++i) {
        const double angle = static_cast<double>(pos) * std::pow(10000.0, -2.0 * static_cast<double>(i) / dim);
        table.push_back(static_cast<float>(sine ? std::sin(angle) : std::cos(angle)));
      }
    }
  }
  const auto before = random.Floats(3 * stride);
  auto rows = before;
  Rope(CpuStream(2), {rows.data(), table.data(), positions.data(), 3, heads, dim, stride, dim});
  for (int64_t t = 0; t < 3; ++t) {
    for (int64_t h = 0; h < heads; ++h) {
      const auto at = static_cast<size_t>(t * stride + h * dim);
      const Doubles head(before.begin() + static_cast<ptrdiff_t>(at),
                         before.begin() + static_cast<ptrdiff_t>(at) + dim);
      test::ExpectNear({rows.data() + at, static_cast<size_t>(dim)},
                       reference::Rope(head, positions[static_cast<size_t>(t)], 10000.0), 1e-6, "head");
    }
    for (int64_t i = heads * dim; i < stride; ++i) {  // what follows the heads is not touched
      EXPECT_EQ(rows[static_cast<size_t>(t * stride + i)], before[static_cast<size_t>(t * stride + i)]);
    }
  }
}

TEST(GateMulTest, EqualsReferenceFromTinyToHugeGates) {
  for (const int64_t columns : {1, 7, 8, 33, 1536}) {
    Random random(3);
    auto rows = random.Floats(2 * 2 * columns);
    for (size_t i = 0; i < rows.size(); ++i) rows[i] *= i % 5 == 0 ? 100.0f : 4.0f;
    std::vector<float> out(static_cast<size_t>(2 * columns));
    GateMul(CpuStream(2), {rows.data(), out.data(), 2, columns});
    Doubles expected;
    for (int64_t t = 0; t < 2; ++t) {
      const auto gate = rows.begin() + t * 2 * columns;
      const auto row = reference::GateMul({gate, gate + columns}, {gate + columns, gate + 2 * columns});
      expected.insert(expected.end(), row.begin(), row.end());
    }
    test::ExpectNear(out, expected, 1e-6, "columns " + std::to_string(columns));
  }
}

}  // namespace
}  // namespace quire::kernels

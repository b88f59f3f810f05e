#include <gtest/gtest.h>

#include <cmath>

#include "kernels/activation.h"
#include "kernels/add_bias.h"
#include "kernels/add_rows.h"
#include "kernels/cap_logits.h"
#include "kernels/embedding.h"
#include "kernels/gate_mul.h"
#include "kernels/head_norm.h"
#include "kernels/layer_norm.h"
#include "kernels/reference/reference.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "kernels/wide_norm.h"
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

TEST(LayerNormTest, NormalisesEveryRowAroundItsMean) {
  Random random(6);
  for (const int64_t hidden : {1, 7, 64, 100, 576}) {
    for (const bool biased : {false, true}) {
      const int64_t tokens = 5;
      auto x = random.Floats(tokens * hidden);
      const auto weight = random.Floats(hidden), bias = random.Floats(hidden);
      for (int64_t i = 0; i < hidden; ++i) x[static_cast<size_t>(i)] += 100;  // a mean far above the spread
      Doubles expected;
      for (int64_t t = 0; t < tokens; ++t) {
        const Doubles row(x.begin() + t * hidden, x.begin() + (t + 1) * hidden);
        const auto normed = reference::LayerNorm(row, {weight.begin(), weight.end()},
                                                 biased ? Doubles(bias.begin(), bias.end()) : Doubles(), 1e-5);
        expected.insert(expected.end(), normed.begin(), normed.end());
      }
      std::vector<float> out(x.size());
      const float* b = biased ? bias.data() : nullptr;
      LayerNorm(CpuStream(2), {x.data(), weight.data(), b, out.data(), tokens, hidden, 1e-5f});
      test::ExpectNear(out, expected, 3e-5, "hidden " + std::to_string(hidden));
      LayerNorm(CpuStream(1), {x.data(), weight.data(), b, x.data(), tokens, hidden, 1e-5f});
      EXPECT_EQ(x, out) << "in place";
    }
  }
}

TEST(ActivateTest, EqualsReferenceFromTinyToHugeNumbers) {
  for (const Activation activation : {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh, Activation::kRelu}) {
    for (const int64_t columns : {1, 7, 8, 33, 1000}) {
      Random random(7);
      auto rows = random.Floats(3 * columns);
      const auto bias = random.Floats(columns);
      for (size_t i = 0; i < rows.size(); ++i) rows[i] *= i % 5 == 0 ? 100.0f : i % 5 == 1 ? 0.01f : 4.0f;
      for (const bool biased : {false, true}) {
        Doubles expected;
        for (size_t i = 0; i < rows.size(); ++i) {
          const double added = biased ? bias[i % static_cast<size_t>(columns)] : 0;
          expected.push_back(reference::Activate(rows[i] + added, activation));
        }
        auto out = rows;
        Activate(CpuStream(2), {out.data(), biased ? bias.data() : nullptr, 3, columns, activation});
        test::ExpectNear(out, expected, 1e-6, "columns " + std::to_string(columns));
      }
    }
  }
}

TEST(AddRowsTest, AddsRowToRow) {
  Random random(8);
  const auto before = random.Floats(5 * 37), from = random.Floats(5 * 37);
  auto to = before;
  AddRows(CpuStream(2), {to.data(), from.data(), 5, 37});
  for (size_t i = 0; i < to.size(); ++i) EXPECT_EQ(to[i], before[i] + from[i]);
}

TEST(EmbeddingTest, LooksUpScaledRowsOrAddsThem) {
  Random random(9);
  const auto numbers = random.Floats(7 * 20), before = random.Floats(3 * 20);
  const Weight table = {NumberType::kF32, reinterpret_cast<const std::byte*>(numbers.data()), 7, 20, 20 * 4};
  const std::vector<int32_t> ids = {6, 0, 3};
  for (const bool adds : {false, true}) {
    auto out = before;
    Embedding(CpuStream(2), {table, ids.data(), out.data(), 3, adds ? 1.0f : 2.0f, adds});
    for (size_t i = 0; i < out.size(); ++i) {
      const float row = numbers[static_cast<size_t>(ids[i / 20]) * 20 + i % 20];
      EXPECT_EQ(out[i], adds ? before[i] + row : 2 * row);
    }
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

void ExpectRotation(int64_t dim, int64_t rotated) {
  Random random(2);
  const int64_t heads = 3, stride = 3 * dim + 20;
  const std::vector<int32_t> positions = {0, 9, 4};
  Doubles angles;
  std::vector<float> table;
  for (int64_t pos = 0; pos < 10; ++pos) {
    for (const bool sine : {false, true}) {
      for (int64_t i = 0; i < rotated / 2; ++i) {
        const double angle =
            static_cast<double>(pos) * std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(rotated));
        table.push_back(static_cast<float>(sine ? std::sin(angle) : std::cos(angle)));
      }
    }
  }
  const auto before = random.Floats(3 * stride);
  auto rows = before;
  Rope(CpuStream(2), {rows.data(), table.data(), positions.data(), 3, heads, dim, stride, rotated});
  for (int64_t t = 0; t < 3; ++t) {
    for (int64_t h = 0; h < heads; ++h) {
      const auto at = static_cast<size_t>(t * stride + h * dim);
      const auto begin = before.begin() + static_cast<ptrdiff_t>(at);
      Doubles expected = reference::Rope({begin, begin + rotated}, positions[static_cast<size_t>(t)], 10000.0);
      expected.insert(expected.end(), begin + rotated, begin + dim);
      test::ExpectNear({rows.data() + at, static_cast<size_t>(dim)}, expected, 1e-6, "head");
    }
    for (int64_t i = heads * dim; i < stride; ++i) {  // what follows the heads is not touched
      EXPECT_EQ(rows[static_cast<size_t>(t * stride + i)], before[static_cast<size_t>(t * stride + i)]);
    }
  }
}

TEST(RopeTest, RotatesEveryHeadOfAStridedRowOrTheFirstDimensionsOfIt) {
  for (const int64_t rotated : {20, 12, 2, 0}) ExpectRotation(20, rotated);
}

void ExpectGatedAs(Activation activation, int64_t columns) {
  Random random(3);
  auto rows = random.Floats(2 * 2 * columns);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] *= i % 5 == 0 ? 100.0f : 4.0f;
  std::vector<float> out(static_cast<size_t>(2 * columns));
  GateMul(CpuStream(2), {rows.data(), out.data(), 2, columns, activation});
  Doubles expected;
  for (int64_t t = 0; t < 2; ++t) {
    const auto gate = rows.begin() + t * 2 * columns;
    const auto row = reference::GateMul({gate, gate + columns}, {gate + columns, gate + 2 * columns}, activation);
    expected.insert(expected.end(), row.begin(), row.end());
  }
  test::ExpectNear(out, expected, 2e-6, "columns " + std::to_string(columns));
}

TEST(GateMulTest, EqualsReferenceFromTinyToHugeGates) {
  for (const int64_t columns : {1, 7, 8, 33, 1536}) {
    for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh}) ExpectGatedAs(activation, columns);
  }
}

TEST(GateMulTest, ClampsGatesFromAboveAndUpsOnBothSides) {
  for (const int64_t columns : {1, 7, 33}) {
    Random random(9);
    const int64_t tokens = 3;
    auto gate_up = random.Floats(tokens * 2 * columns);
    for (float& x : gate_up) x *= 12;
    std::vector<float> out(static_cast<size_t>(tokens * columns));
    GateMul(CpuStream(2), {gate_up.data(), out.data(), tokens, columns, Activation::kClampedSilu, 7.0f});
    Doubles expected;
    for (int64_t t = 0; t < tokens; ++t) {
      const auto gate = gate_up.begin() + t * 2 * columns, up = gate + columns;
      const auto row = reference::GateMul({gate, up}, {up, up + columns}, Activation::kClampedSilu, 7);
      expected.insert(expected.end(), row.begin(), row.end());
    }
    test::ExpectNear(out, expected, 2e-6, "columns " + std::to_string(columns));
  }
}

TEST(RmsNormTest, AddsWhatItNormedWhereItIsToldSo) {
  Random random(6);
  const int64_t tokens = 3, hidden = 37;
  const auto x = random.Floats(tokens * hidden), weight = random.Floats(hidden),
             before = random.Floats(tokens * hidden);
  auto out = before;
  RmsNorm(CpuStream(2), {x.data(), weight.data(), out.data(), tokens, hidden, 1e-5f, true});
  Doubles expected(before.begin(), before.end());
  for (int64_t t = 0; t < tokens; ++t) {
    const auto row = x.begin() + t * hidden;
    const auto normed = reference::RmsNorm({row, row + hidden}, {weight.begin(), weight.end()}, 1e-5);
    for (int64_t i = 0; i < hidden; ++i)
      expected[static_cast<size_t>(t * hidden + i)] += normed[static_cast<size_t>(i)];
  }
  test::ExpectNear(out, expected, 2e-6, "sum");
}

TEST(WideNormTest, NormsARowWhoseOtherHalfIsElsewhere) {
  Random random(7);
  for (const int64_t columns : {1, 7, 64, 129}) {
    const int64_t tokens = 4, stride = 2 * columns;
    const auto before = random.Floats(tokens * stride), weight = random.Floats(stride);
    auto rows = before;
    std::vector<float> halves[2] = {std::vector<float>(static_cast<size_t>(3 * tokens)), {}}, squares(halves[0].size());
    halves[1] = halves[0];
    for (const int64_t half : {0, 1}) {
      float* part = halves[half].data();
      SumSquares(CpuStream(2), {rows.data() + half * columns, part + 1, tokens, columns, stride, 3});
      for (size_t i = 0; i < squares.size(); ++i) squares[i] += part[i];
    }
    for (int64_t t = 0; t < tokens; ++t) EXPECT_EQ(squares[static_cast<size_t>(3 * t)], 0) << "not this norm's";
    for (const int64_t half : {0, 1}) {
      WideNorm(CpuStream(2), {rows.data() + half * columns, weight.data() + half * columns, squares.data() + 1, tokens,
                              columns, stride, 3, stride, 1e-5f});
    }
    for (int64_t t = 0; t < tokens; ++t) {
      const auto row = before.begin() + t * stride;
      test::ExpectNear({rows.data() + t * stride, static_cast<size_t>(stride)},
                       reference::RmsNorm({row, row + stride}, {weight.begin(), weight.end()}, 1e-5), 2e-6, "row");
    }
  }
}

TEST(CapLogitsTest, ScalesAndCapsFromTinyToHugeNumbers) {
  for (const float cap : {0.0f, 30.0f}) {
    Random random(8);
    auto logits = random.Floats(1003);
    for (size_t i = 0; i < logits.size(); ++i) logits[i] *= i % 3 == 0 ? 1e4f : i % 3 == 1 ? 20.0f : 1e-3f;
    Doubles expected;
    for (const float x : logits) expected.push_back(reference::Capped(x, 0.3f, cap));
    CapLogits(CpuStream(2), {logits.data(), static_cast<int64_t>(logits.size()), 0.3f, cap});
    test::ExpectNear(logits, expected, 4e-6, "cap " + std::to_string(cap));
  }
}

}  // namespace
}  // namespace quire::kernels

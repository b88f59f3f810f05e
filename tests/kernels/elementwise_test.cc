// Tests operations on rows and on blocks, on the CPU and on a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/activation.h"
#include "kernels/add_rows.h"
#include "kernels/block_copy.h"
#include "kernels/cap_logits.h"
#include "kernels/combine_experts.h"
#include "kernels/embedding.h"
#include "kernels/gate_mul.h"
#include "kernels/head_norm.h"
#include "kernels/layer_norm.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "kernels/scale_columns.h"
#include "kernels/scale_rows.h"
#include "kernels/sum_squares.h"
#include "kernels/wide_norm.h"
#include "tests/kernels/numbers.h"
#include "tests/kernels/op_device.h"
#include "tests/kernels/reference.h"
#include "tests/support/expect_near.h"
#include "tests/support/random.h"

namespace quire::kernels {
namespace {

using simt::DeviceBuffer;
using test::ExpectNear;
using test::Random;
using test_case::DeviceName;
using test_case::Devices;
using test_case::OpTest;
using Doubles = std::vector<double>;

void Append(Doubles& out, const Doubles& more) { out.insert(out.end(), more.begin(), more.end()); }

/// Returns `to` + `delta`, not rounded. The operation stores this sum as the residual, rounded to the residual's type.
Doubles Added(const Numbers& to, const Numbers& delta) {
  Doubles sum;
  for (int64_t i = 0; i < to.count; ++i) sum.push_back(to[i] + delta[i]);
  return sum;
}

template <class Device>
class RmsNormTest : public OpTest<Device> {};
TYPED_TEST_SUITE(RmsNormTest, Devices, DeviceName);

TYPED_TEST(RmsNormTest, RmsNorm_UpdatesTheResidualAndWritesOrAddsItsNorm) {
  this->ForEachTypeAndSize([&](NumberType dtype, double tolerance, int64_t hidden) {
    for (const auto& [with_delta, adds, scale] :
         {std::tuple{false, false, 1.0f}, {true, false, 1.0f}, {false, true, 1.0f}, {false, true, 0.75f}}) {
      Random random(static_cast<uint64_t>(hidden));
      const int64_t tokens = 5, count = tokens * hidden;
      const Numbers residual = Numbers::Of(dtype, count, random), delta = Numbers::Of(dtype, count, random),
                    weight = Numbers::Of(dtype, hidden, random), out = Numbers::Of(dtype, count, random);
      const Doubles sum = with_delta ? Added(residual, delta) : residual.All(), before = out.All();
      RmsNorm(this->device_.stream, {dtype, residual.data(), with_delta ? delta.data() : nullptr, weight.data(),
                                     out.data(), tokens, hidden, 1e-5f, adds, scale});
      ExpectNear(residual.Floats(), sum, tolerance, "residual");
      Doubles expected;
      for (int64_t t = 0; t < tokens; ++t) {  // the norm is taken of the stored residual
        Append(expected, reference::RmsNorm(residual.Slice(t * hidden, hidden), weight.All(), 1e-5));
      }
      for (size_t i = 0; adds && i < expected.size(); ++i) expected[i] = (expected[i] + before[i]) * scale;
      ExpectNear(out.Floats(), expected, tolerance, adds ? "sum" : "norm");
    }
  });
}

template <class Device>
class LayerNormTest : public OpTest<Device> {};
TYPED_TEST_SUITE(LayerNormTest, Devices, DeviceName);

TYPED_TEST(LayerNormTest, LayerNorm_UpdatesTheResidualAndWritesItsNorm_AlsoInPlace) {
  this->ForEachTypeAndSize([&](NumberType dtype, double tolerance, int64_t hidden) {
    for (const auto& [with_delta, biased] : {std::pair{false, false}, {false, true}, {true, false}, {true, true}}) {
      Random random(static_cast<uint64_t>(hidden));
      const int64_t tokens = 5, count = tokens * hidden;
      const Numbers residual = Numbers::Of(dtype, count, random), delta = Numbers::Of(dtype, count, random),
                    weight = Numbers::Of(dtype, hidden, random), bias = Numbers::Of(dtype, hidden, random),
                    out(dtype, count);
      for (int64_t i = 0; i < count; ++i) residual.Set(i, residual[i] + 5);  // makes the mean larger than the spread
      const Doubles sum = with_delta ? Added(residual, delta) : residual.All();
      const void* b = biased ? bias.data() : nullptr;
      LayerNorm(this->device_.stream, {dtype, residual.data(), with_delta ? delta.data() : nullptr, weight.data(), b,
                                       out.data(), tokens, hidden, 1e-5f});
      ExpectNear(residual.Floats(), sum, tolerance, "residual");
      Doubles expected;
      for (int64_t t = 0; t < tokens; ++t) {  // the norm is taken of the stored residual
        Append(expected, reference::LayerNorm(residual.Slice(t * hidden, hidden), weight.All(),
                                              biased ? bias.All() : Doubles(), 1e-5));
      }
      ExpectNear(out.Floats(), expected, tolerance + 4e-6, "norm");
      LayerNorm(this->device_.stream,
                {dtype, residual.data(), nullptr, weight.data(), b, residual.data(), tokens, hidden, 1e-5f});
      EXPECT_EQ(residual.Floats(), out.Floats()) << "in place";
    }
  });
}

template <class Device>
class ActivateTest : public OpTest<Device> {};
TYPED_TEST_SUITE(ActivateTest, Devices, DeviceName);

TYPED_TEST(ActivateTest, Activate_EqualsReference_FromTinyToHugeNumbers) {
  this->ForEachTypeAndSize([&](NumberType dtype, double tolerance, int64_t columns) {
    for (const Activation activation :
         {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh, Activation::kRelu, Activation::kRelu2}) {
      for (const bool biased : {false, true}) {
        Random random(8);
        const int64_t tokens = 3;
        const Numbers rows = Numbers::Of(dtype, tokens * columns, random), bias = Numbers::Of(dtype, columns, random);
        for (int64_t i = 0; i < rows.count; ++i) {
          rows.Set(i, rows[i] * (i % 5 == 0 ? 60 : i % 5 == 1 ? 0.01 : 2));  // exp(120) overflows
        }
        Doubles expected;
        for (int64_t i = 0; i < rows.count; ++i) {
          expected.push_back(reference::Activate(rows[i] + (biased ? bias[i % columns] : 0), activation));
        }
        Activate(this->device_.stream,
                 {dtype, rows.data(), biased ? bias.data() : nullptr, tokens, columns, activation});
        ExpectNear(rows.Floats(), expected, tolerance, "activated");
      }
    }
  });
}

template <class Device>
class AddRowsTest : public OpTest<Device> {};
TYPED_TEST_SUITE(AddRowsTest, Devices, DeviceName);

TYPED_TEST(AddRowsTest, AddRows_AddsRowToRowOrOneRowToAll_AndLeavesTheGaps) {
  this->ForEachTypeAndSize([&](NumberType dtype, double tolerance, int64_t columns) {
    for (const int64_t from_stride : {columns, columns + 16, int64_t{0}}) {
      Random random(9);
      const int64_t tokens = 5, stride = columns + 8;
      const Numbers to = Numbers::Of(dtype, tokens * stride, random),
                    from = Numbers::Of(dtype, (tokens - 1) * from_stride + columns, random);
      Doubles expected = to.All();
      for (int64_t i = 0; i < to.count; ++i) {
        if (i % stride < columns) expected[static_cast<size_t>(i)] += from[i / stride * from_stride + i % stride];
      }
      const Doubles before = to.All();
      AddRows(this->device_.stream, {dtype, to.data(), from.data(), tokens, columns, stride, from_stride});
      ExpectNear(to.Floats(), expected, tolerance, "sum");
      for (int64_t i = 0; i < to.count; ++i) {
        if (i % stride >= columns) {
          EXPECT_EQ(to[i], before[static_cast<size_t>(i)]);
        }
      }
    }
  });
}

template <class Device>
class EmbeddingTest : public OpTest<Device> {};
TYPED_TEST_SUITE(EmbeddingTest, Devices, DeviceName);

/// Looks up `ids` in a table whose first row belongs to token `first_id`. Expects the scaled rows, or zeros for other
/// tokens, in the output or added to it.
template <class Stream>
void ExpectRowsOf(const Stream& stream, NumberType dtype, double tolerance, int64_t hidden, int64_t first_id,
                  const std::vector<int32_t>& ids) {
  for (const bool adds : {false, true}) {
    const int64_t rows = 7, tokens = static_cast<int64_t>(ids.size());
    Random random(4);
    const Numbers numbers = Numbers::Of(dtype, rows * hidden, random),
                  out = Numbers::Of(dtype, tokens * hidden, random);
    const DeviceBuffer<int32_t> device_ids(ids);
    Doubles expected;
    for (int64_t i = 0; i < out.count; ++i) {
      const int64_t row = ids[static_cast<size_t>(i / hidden)] - first_id;
      const double found = row >= 0 && row < rows ? 2.5 * numbers[row * hidden + i % hidden] : 0;
      expected.push_back(adds ? out[i] + found : found);
    }
    const auto* data = static_cast<const std::byte*>(numbers.data());
    Embedding(stream, {.dtype = dtype,
                       .table = {dtype, data, rows, hidden, hidden * ByteSize(dtype)},
                       .token_ids = device_ids.data(),
                       .out = out.data(),
                       .num_tokens = tokens,
                       .first_id = first_id,
                       .scale = 2.5f,
                       .adds = adds});
    // The added number has already been rounded, so both rounding errors add up.
    ExpectNear(out.Floats(), expected, adds ? 4 * tolerance : tolerance, adds ? "sum" : "rows");
  }
}

TYPED_TEST(EmbeddingTest, Embedding_ReadsRowsOfItsShard_AndGivesZerosForOtherTokens) {
  this->ForEachTypeAndSize([&](NumberType dtype, double tolerance, int64_t hidden) {
    ExpectRowsOf(this->device_.stream, dtype, tolerance, hidden, 0, {6, 0, 3});
    ExpectRowsOf(this->device_.stream, dtype, tolerance, hidden, 100, {104, 100, 99, 107, 102, 0});
    ExpectRowsOf(this->device_.stream, dtype, tolerance, hidden, -2, {0, 4, 1});  // rows for tokens below 0
  });
}

template <class Device>
class GateMulTest : public OpTest<Device> {};
TYPED_TEST_SUITE(GateMulTest, Devices, DeviceName);

TYPED_TEST(GateMulTest, GateMul_EqualsReference_FromTinyToHugeGates) {
  this->ForEachTypeAndSize([&](NumberType dtype, double tolerance, int64_t columns) {
    for (const bool interleaved : {false, true}) {
      if (interleaved && columns % 8 != 0) continue;
      for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh, Activation::kClampedSilu}) {
        Random random(3);
        const int64_t tokens = 3;
        const Numbers in = Numbers::Of(dtype, tokens * 2 * columns, random), out(dtype, tokens * columns);
        for (int64_t i = 0; i < in.count; i += 5) in.Set(i, in[i] * 60);  // exp(120) overflows
        const float limit = activation == Activation::kClampedSilu ? 0.7f : 0;
        GateMul(this->device_.stream, {dtype, in.data(), out.data(), tokens, columns, interleaved, activation, limit});
        Doubles expected;
        for (int64_t t = 0; t < tokens; ++t) {
          Doubles gate, up;
          for (int64_t i = 0; i < columns; ++i) {
            const int64_t at = 2 * t * columns + (interleaved ? i / 8 * 16 + i % 8 : i);
            gate.push_back(in[at]);
            up.push_back(in[at + (interleaved ? 8 : columns)]);
          }
          Append(expected, reference::GateMul(gate, up, activation, limit));
        }
        ExpectNear(out.Floats(), expected, tolerance, interleaved ? "interleaved" : "gates, then ups");
      }
    }
  });
}

TYPED_TEST(GateMulTest, GateMul_ReadsUpsFromTheirOwnArray_AndOverwritesTheGates) {
  this->ForEachTypeAndSize([&](NumberType dtype, double tolerance, int64_t columns) {
    Random random(7);
    const int64_t tokens = 3, stride = 3 * columns;
    const Numbers gates = Numbers::Of(dtype, tokens * columns, random),
                  ups = Numbers::Of(dtype, tokens * stride, random);
    Doubles expected;
    for (int64_t t = 0; t < tokens; ++t) {
      Append(expected, reference::GateMul(gates.Slice(t * columns, columns), ups.Slice(t * stride + columns, columns),
                                          Activation::kGeluTanh, 0));
    }
    const auto* second = static_cast<const std::byte*>(ups.data()) + columns * ByteSize(dtype);
    GateMul(this->device_.stream, {.dtype = dtype,
                                   .gate_up = gates.data(),
                                   .out = gates.data(),
                                   .num_tokens = tokens,
                                   .columns = columns,
                                   .interleaved = false,
                                   .activation = Activation::kGeluTanh,
                                   .up = second,
                                   .up_stride = stride});
    ExpectNear(gates.Floats(), expected, tolerance, "in place");
  });
}

template <class Device>
class SumSquaresTest : public OpTest<Device> {};
TYPED_TEST_SUITE(SumSquaresTest, Devices, DeviceName);

TYPED_TEST(SumSquaresTest, SumSquares_SumsTheColumnsOfQueriesAndOfKeys) {
  this->ForEachType([&](NumberType dtype, double) {
    const int64_t tokens = 5, stride = 900, queries = 600, first_key = 664, keys = 130;
    Random random(16);
    const Numbers rows = Numbers::Of(dtype, tokens * stride, random);
    const DeviceBuffer<float> squares(std::vector<float>(2 * tokens, -1));
    SumSquares(this->device_.stream, {dtype, rows.data(), stride, tokens, queries, first_key, keys, squares.data()});
    for (int64_t t = 0; t < tokens; ++t) {
      double of_queries = 0, of_keys = 0;
      for (int64_t i = 0; i < queries; ++i) of_queries += rows[t * stride + i] * rows[t * stride + i];
      for (int64_t i = first_key; i < first_key + keys; ++i) of_keys += rows[t * stride + i] * rows[t * stride + i];
      EXPECT_NEAR(squares[2 * t], of_queries, 1e-5 * of_queries);
      EXPECT_NEAR(squares[2 * t + 1], of_keys, 1e-5 * of_keys);
    }
  });
}

template <class Device>
class CapLogitsTest : public OpTest<Device> {};
TYPED_TEST_SUITE(CapLogitsTest, Devices, DeviceName);

TYPED_TEST(CapLogitsTest, CapLogits_ScalesAndCapsTheColumnsOfEveryRow) {
  for (const float cap : {0.0f, 30.0f}) {
    for (const int64_t gap : {0, 5}) {
      const int64_t rows = 3, columns = 301, stride = columns + gap;
      Random random(17);
      std::vector<float> before = random.Floats(rows * stride);
      for (size_t i = 0; i < before.size(); ++i) before[i] *= i % 3 == 0 ? 1e4f : i % 3 == 1 ? 20.0f : 1e-3f;
      const DeviceBuffer<float> logits(before);
      CapLogits(this->device_.stream, {logits.data(), rows, columns, stride, 0.3f, cap});
      for (int64_t i = 0; i < rows * stride; ++i) {
        const float x = before[static_cast<size_t>(i)];
        const double want = i % stride < columns ? reference::Capped(x, 0.3f, cap) : x;
        EXPECT_NEAR(logits[i], want, 1e-5 * std::max(1.0, std::fabs(want)));
      }
    }
  }
}

template <class Device>
class CombineExpertsTest : public OpTest<Device> {};
TYPED_TEST_SUITE(CombineExpertsTest, Devices, DeviceName);

TYPED_TEST(CombineExpertsTest, CombineExperts_WeighsRowsOfTheExpertsAndOfTheSharedExpert) {
  this->ForEachTypeAndSize([&](NumberType dtype, double tolerance, int64_t columns) {
    for (const auto& [shares, gated] : {std::pair{false, false}, {true, false}, {true, true}}) {
      Random random(5);
      const int64_t tokens = 4, k = 3, stride = 9;
      const Numbers rows = Numbers::Of(dtype, tokens * k * columns, random),
                    shared = Numbers::Of(dtype, tokens * columns, random), out(dtype, tokens * columns);
      const DeviceBuffer<float> weights(random.Floats(tokens * k)), gates(random.Floats(tokens * stride));
      // A row index of -1 means that another rank has the expert: the first expert of the second token, two experts of
      // the third, and all experts of the last.
      const DeviceBuffer<int32_t> places(std::vector<int32_t>{3, 0, 7, -1, 2, 11, 4, -1, -1, -1, -1, -1});
      CombineExperts(this->device_.stream,
                     {dtype, rows.data(), places.data(), weights.data(), shares ? shared.data() : nullptr,
                      gated ? gates.data() + 2 : nullptr, stride, out.data(), tokens, k, columns, 0.5f});
      Doubles want;
      for (int64_t i = 0; i < tokens * columns; ++i) {
        const int64_t token = i / columns;
        const double gate = gated ? 1 / (1 + std::exp(-double{gates[token * stride + 2]})) : 1;
        double sum = shares ? gate * shared[i] : 0;
        for (int64_t j = token * k; j < (token + 1) * k; ++j) {
          if (places[j] >= 0) sum += double{weights[j]} * rows[places[j] * columns + i % columns];
        }
        want.push_back(sum / 2);
      }
      ExpectNear(out.Floats(), want, tolerance, "combined");
    }
  });
}

template <class Device>
class BlockCopyTest : public OpTest<Device> {};
TYPED_TEST_SUITE(BlockCopyTest, Devices, DeviceName);

TYPED_TEST(BlockCopyTest, BlockCopy_CopiesWithinAPoolAndToAnotherPool) {
  for (const int64_t block_bytes : {16, 4096 + 48, 3 * 65536 + 16}) {
    const int64_t blocks = 9;
    Random random(static_cast<uint64_t>(block_bytes));
    const DeviceBuffer<std::byte> pool(blocks * block_bytes), other(blocks * block_bytes);
    for (int64_t i = 0; i < pool.size(); ++i) pool[i] = static_cast<std::byte>(random.Bits());
    std::vector<std::byte> expected(pool.data(), pool.data() + pool.size()), elsewhere(expected.size());
    const std::vector<int32_t> list{3, 5, 3, 1, 0, 7, 8, 2};
    const DeviceBuffer<int32_t> pairs(list);
    BlockCopy(this->device_.stream, {pool.data(), other.data(), block_bytes, pairs.data(), 4});
    BlockCopy(this->device_.stream, {pool.data(), pool.data(), block_bytes, pairs.data(), 4});
    for (size_t i = 0; i < list.size(); i += 2) {
      const std::byte* from = expected.data() + list[i] * block_bytes;
      std::memcpy(elsewhere.data() + list[i + 1] * block_bytes, from, static_cast<size_t>(block_bytes));
    }
    for (size_t i = 0; i < list.size(); i += 2) {
      const std::byte* from = expected.data() + list[i] * block_bytes;
      std::memcpy(expected.data() + list[i + 1] * block_bytes, from, static_cast<size_t>(block_bytes));
    }
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), pool.data())) << "blocks of " << block_bytes;
    EXPECT_TRUE(std::equal(elsewhere.begin(), elsewhere.end(), other.data())) << "to another pool, " << block_bytes;
  }
}

template <class Device>
class NoRowsTest : public OpTest<Device> {};
TYPED_TEST_SUITE(NoRowsTest, Devices, DeviceName);

TYPED_TEST(NoRowsTest, Functions_AcceptNullPointers_WhenThereAreNoRows) {
  const auto& stream = this->device_.stream;
  const auto kF32 = NumberType::kF32;
  RmsNorm(stream, {kF32, nullptr, nullptr, nullptr, nullptr, 0, 64, 1e-5f});
  LayerNorm(stream, {kF32, nullptr, nullptr, nullptr, nullptr, nullptr, 0, 64, 1e-5f});
  Activate(stream, {kF32, nullptr, nullptr, 0, 64, Activation::kSilu});
  AddRows(stream, {kF32, nullptr, nullptr, 0, 64, 64, 64});
  GateMul(stream, {kF32, nullptr, nullptr, 0, 64, false});
  Embedding(
      stream,
      {.dtype = kF32, .table = {kF32, nullptr, 0, 64, 256}, .token_ids = nullptr, .out = nullptr, .num_tokens = 0});
  BlockCopy(stream, {nullptr, nullptr, 16, nullptr, 0});
}

// The operations below exist only on the CPU.

TEST(ScaleColumnsTest, ScaleColumns_MultipliesEachColumnByItsFactor_AndLeavesTheGaps) {
  Random random(3);
  for (const int64_t columns : {1, 7, 16, 70}) {
    const int64_t tokens = 5, stride = columns + 3;
    const auto before = random.Floats(tokens * stride), factors = random.Floats(columns);
    auto rows = before;
    ScaleColumns(CpuStream(2), {rows.data(), factors.data(), tokens, columns, stride});
    for (size_t i = 0; i < rows.size(); ++i) {
      const size_t column = i % static_cast<size_t>(stride);
      EXPECT_EQ(rows[i], column < factors.size() ? before[i] * factors[column] : before[i]);
    }
  }
}

TEST(ScaleRowsTest, ScaleRows_MultipliesEachRowByTheFactorOfItsIndex) {
  Random random(5);
  const std::vector<int32_t> of_row = {2, 0, 1, 2};
  const auto factors = random.Floats(3);
  for (const int64_t columns : {1, 7, 16, 70}) {
    const auto before = random.Floats(std::ssize(of_row) * columns);
    auto rows = before;
    ScaleRows(CpuStream(2), {rows.data(), of_row.data(), factors.data(), std::ssize(of_row), columns});
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto factor = static_cast<size_t>(of_row[i / static_cast<size_t>(columns)]);
      EXPECT_EQ(rows[i], before[i] * factors[factor]);
    }
  }
}

// On CUDA, the operations below are parts of RopeKvWrite (cuda/ops_test.cc).

TEST(HeadNormTest, HeadNorm_NormsEachHeadOfAStridedRow_BitEqualToARowOfItsOwn) {
  Random random(4);
  for (const int64_t dim : {1, 10, 64, 128}) {
    const int64_t tokens = 5, heads = 3, stride = 3 * dim + 7;
    const auto before = random.Floats(tokens * stride), weight = random.Floats(dim);
    auto rows = before;
    HeadNorm(CpuStream(2), {rows.data(), weight.data(), tokens, heads, dim, stride, 1e-5f});
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t h = 0; h < heads; ++h) {
        std::vector<float> head(static_cast<size_t>(dim)), row(head.size());
        std::copy_n(before.begin() + t * stride + h * dim, dim, head.begin());
        const std::span<const float> normed(rows.data() + t * stride + h * dim, static_cast<size_t>(dim));
        ExpectNear(normed, reference::RmsNorm({head.begin(), head.end()}, {weight.begin(), weight.end()}, 1e-5), 2e-6,
                   "dim " + std::to_string(dim));
        RmsNorm(CpuStream(1), {NumberType::kF32, head.data(), nullptr, weight.data(), row.data(), 1, dim, 1e-5f});
        EXPECT_TRUE(std::ranges::equal(normed, row)) << "not the bits of a row";
      }
      for (int64_t i = t * stride + heads * dim; i < (t + 1) * stride; ++i) {  // columns behind the heads do not change
        EXPECT_EQ(rows[static_cast<size_t>(i)], before[static_cast<size_t>(i)]);
      }
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
      ExpectNear({rows.data() + at, static_cast<size_t>(dim)}, expected, 1e-6, "head");
    }
    for (int64_t i = heads * dim; i < stride; ++i) {  // columns behind the heads do not change
      EXPECT_EQ(rows[static_cast<size_t>(t * stride + i)], before[static_cast<size_t>(t * stride + i)]);
    }
  }
}

TEST(RopeTest, Rope_RotatesEachHeadOfAStridedRow_OrOnlyItsFirstDimensions) {
  for (const int64_t rotated : {20, 12, 2, 0}) ExpectRotation(20, rotated);
}

template <class Device>
class WideNormTest : public OpTest<Device> {};
TYPED_TEST_SUITE(WideNormTest, Devices, DeviceName);

TYPED_TEST(WideNormTest, WideNorm_NormsHalfARow_WhenTheOtherHalfIsOnAnotherRank) {
  this->ForEachType([&](NumberType dtype, double tolerance) {
    for (const int64_t columns : {1, 7, 64, 300}) {
      Random random(7);
      const int64_t tokens = 4, stride = 2 * columns, element = ByteSize(dtype);
      const Numbers rows = Numbers::Of(dtype, tokens * stride, random);
      const DeviceBuffer<float> weight(random.Floats(stride)), squares(3 * tokens);
      Doubles expected;
      for (int64_t t = 0; t < tokens; ++t) {
        const Doubles row = rows.Slice(t * stride, stride);
        for (const double x : row) squares[3 * t + 1] += static_cast<float>(x * x);
        Append(expected, reference::RmsNorm(row, {weight.data(), weight.data() + stride}, 1e-5));
      }
      for (const int64_t half : {0, 1}) {
        WideNorm(this->device_.stream,
                 {dtype, static_cast<std::byte*>(rows.data()) + half * columns * element,
                  weight.data() + half * columns, squares.data() + 1, tokens, columns, stride, 3, stride, 1e-5f});
      }
      ExpectNear(rows.Floats(), expected, tolerance, "rows");
    }
  });
}

}  // namespace
}  // namespace quire::kernels

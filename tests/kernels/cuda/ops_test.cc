// Every CUDA op but attention, over the emulator.
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "kernels/cuda/decode_reference.h"
#include "kernels/cuda/elementwise/block_move.h"
#include "kernels/cuda/elementwise/rope_kv_write.h"
#include "kernels/cuda/elementwise/row_ops.h"
#include "kernels/cuda/elementwise/wide_norm.h"
#include "kernels/reference/reference.h"
#include "simt/device_buffer.h"
#include "simt/expect_error.h"
#include "tests/support/expect_near.h"
#include "tests/support/random.h"

namespace quire::kernels {
namespace {

using reference::ReadNumber;
using simt::DeviceBuffer;

constexpr NumberType kTypes[] = {NumberType::kF32, NumberType::kF16, NumberType::kBF16};

/// Of a result that was rounded once to the type, relative to max(1, |result|).
double Tolerance(NumberType type) {
  return type == NumberType::kF32 ? 1e-6 : type == NumberType::kF16 ? 0x1p-11 + 1e-6 : 0x1p-8 + 1e-6;
}

/// An array of a type in device memory, and the same numbers in fp64.
struct Numbers {
  Numbers(NumberType t, int64_t n) : type(t), count(n), bytes(n * ByteSize(t)) {}
  static Numbers Of(NumberType type, int64_t count, test::Random& random) {
    Numbers numbers(type, count);
    for (int64_t i = 0; i < count; ++i) reference::WriteNumber(numbers.data(), type, i, 2 * random.Signed());
    return numbers;
  }
  void* data() const { return bytes.data(); }
  double operator[](int64_t i) const { return ReadNumber(data(), type, i); }
  std::vector<double> Slice(int64_t begin, int64_t n) const {
    std::vector<double> out;
    for (int64_t i = 0; i < n; ++i) out.push_back((*this)[begin + i]);
    return out;
  }
  std::vector<float> Floats() const {
    std::vector<float> out;
    for (int64_t i = 0; i < count; ++i) out.push_back(static_cast<float>((*this)[i]));
    return out;
  }

  NumberType type;
  int64_t count;
  DeviceBuffer<std::byte> bytes;
};

void Append(std::vector<double>& out, const std::vector<double>& more) {
  out.insert(out.end(), more.begin(), more.end());
}

struct RopeShape {
  NumberType dtype;
  bool fp8_cache;
  int32_t head_size, rotary_dim, block_size;
  bool biased = false, normed = false;
  NumberType CachedType() const { return fp8_cache ? NumberType::kFp8E4M3 : dtype; }
};

/// Three rows that are written and one that is not; rows are further apart than they are long.
void ExpectRopeKvWriteEqualsReference(const RopeShape& shape, uint64_t seed) {
  test::Random random(seed);
  const int32_t heads = 3, kv_heads = 2, size = shape.head_size, blocks = 5;
  const int64_t width = (heads + 2 * kv_heads) * size, stride = width + 8, tokens = 4;
  const bool fp8 = shape.fp8_cache;
  Numbers qkv = Numbers::Of(shape.dtype, tokens * stride, random);
  const std::vector<double> before = qkv.Slice(0, qkv.count);
  const std::vector<int32_t> positions{7, 0, 19, 3};
  const std::vector<int64_t> slots{3 * shape.block_size + 5, -1, shape.block_size - 1, 4 * shape.block_size};
  std::vector<float> cos_sin;
  for (int position = 0; position < 20; ++position) {
    for (const bool sine : {false, true}) {
      for (int i = 0; i < shape.rotary_dim / 2; ++i) {
        const double angle = position * std::pow(10000.0, -2.0 * i / shape.rotary_dim);
        cos_sin.push_back(static_cast<float>(sine ? std::sin(angle) : std::cos(angle)));
      }
    }
  }
  const int64_t block_elements = int64_t{kv_heads} * size * shape.block_size + 64;  // more lies between the blocks
  const DeviceBuffer<std::byte> keys(blocks * block_elements * ByteSize(shape.CachedType()), std::byte{0x7e});
  const DeviceBuffer<std::byte> values(keys.size(), std::byte{0x7e});
  const DeviceBuffer<float> device_cos_sin(cos_sin);
  const DeviceBuffer<int32_t> device_positions(positions);
  const DeviceBuffer<int64_t> device_slots(slots);
  const PagedCache cache{keys.data(), values.data(),    block_elements,     block_elements,  kv_heads,
                         size,        shape.block_size, shape.CachedType(), fp8 ? 0.02f : 1, fp8 ? 0.01f : 1};
  const Numbers bias = Numbers::Of(shape.dtype, width, random), query_norm = Numbers::Of(shape.dtype, size, random),
                key_norm = Numbers::Of(shape.dtype, size, random);
  const double epsilon = 1e-3;
  RopeKvWrite({}, {.dtype = shape.dtype,
                   .qkv = qkv.data(),
                   .row_stride = stride,
                   .cos_sin = device_cos_sin.data(),
                   .positions = device_positions.data(),
                   .slots = device_slots.data(),
                   .num_tokens = tokens,
                   .num_heads = heads,
                   .rotary_dim = shape.rotary_dim,
                   .cache = cache,
                   .bias = shape.biased ? bias.data() : nullptr,
                   .query_norm = shape.normed ? query_norm.data() : nullptr,
                   .key_norm = shape.normed ? key_norm.data() : nullptr,
                   .epsilon = static_cast<float>(epsilon)});

  // Biases and norms are rounded once before a rotation, which adds two numbers.
  const double own = Tolerance(shape.dtype) * (shape.biased || shape.normed ? 4 : 1) + 1e-6;
  // An E4M3 number has 3 bits behind the point; the smallest step is 2^-9 of the scale.
  const double tolerance = fp8 ? 0x1p-4 + own : own;
  std::set<int64_t> written_keys, written_values;
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t head = 0; head < heads + 2 * kv_heads; ++head) {
      std::vector<double> expected(before.begin() + t * stride + head * size,
                                   before.begin() + t * stride + (head + 1) * size);
      const bool is_value = head >= heads + kv_heads;
      if (shape.biased && slots[static_cast<size_t>(t)] >= 0) {
        for (int64_t d = 0; d < size; ++d) expected[static_cast<size_t>(d)] += bias[head * size + d];
      }
      if (shape.normed && slots[static_cast<size_t>(t)] >= 0 && !is_value) {
        expected = reference::RmsNorm(expected, (head < heads ? query_norm : key_norm).Slice(0, size), epsilon);
      }
      const std::vector<double> unrotated = expected;
      if (slots[static_cast<size_t>(t)] >= 0 && !is_value) {
        const std::vector<double> turned = reference::Rope({expected.begin(), expected.begin() + shape.rotary_dim},
                                                           positions[static_cast<size_t>(t)], 10000.0);
        std::copy(turned.begin(), turned.end(), expected.begin());
      }
      for (int64_t d = 0; d < size; ++d) {
        const double want = expected[static_cast<size_t>(d)], bound = tolerance * std::max(1.0, std::fabs(want));
        const double in_row = qkv[t * stride + head * size + d];
        if (head < heads) {
          ASSERT_NEAR(in_row, want, own * std::max(1.0, std::fabs(want))) << head << " " << d;
          continue;
        }
        if (shape.biased || shape.normed) {
          const double plain = unrotated[static_cast<size_t>(d)];
          ASSERT_NEAR(in_row, plain, own * std::max(1.0, std::fabs(plain))) << head << " " << d;
        } else {
          ASSERT_EQ(in_row, before[static_cast<size_t>(t * stride + head * size + d)]);
        }
        if (slots[static_cast<size_t>(t)] < 0) continue;
        const int64_t block = slots[static_cast<size_t>(t)] / shape.block_size;
        const int64_t offset = slots[static_cast<size_t>(t)] % shape.block_size;
        const int64_t kv = (head - heads) % kv_heads;
        const int64_t at = is_value ? reference::ValueIndex(cache, block, kv, offset, d)
                                    : reference::KeyIndex(cache, block, kv, offset, d);
        (is_value ? written_values : written_keys).insert(at);
        const double got = ReadNumber(is_value ? values.data() : keys.data(), cache.type, at) *
                           (is_value ? cache.v_scale : cache.k_scale);
        ASSERT_NEAR(got, want, bound) << (is_value ? "value " : "key ") << head << " " << d << " of token " << t;
      }
    }
  }
  const int64_t element = ByteSize(shape.CachedType());
  for (int64_t i = 0; i < keys.size(); ++i) {  // and not a byte besides
    if (!written_keys.count(i / element)) {
      ASSERT_EQ(keys[i], std::byte{0x7e});
    }
    if (!written_values.count(i / element)) {
      ASSERT_EQ(values[i], std::byte{0x7e});
    }
  }
}

TEST(RopeKvWriteTest, EqualsReferenceAndTouchesOnlyItsSlots) {
  uint64_t seed = 0;
  for (const NumberType dtype : kTypes) {
    for (const bool fp8 : {false, true}) {
      for (const int32_t head_size : {64, 80, 128}) {
        for (const int32_t rotary_dim : {head_size, head_size / 2, 0}) {
          ExpectRopeKvWriteEqualsReference({dtype, fp8, head_size, rotary_dim, 8 << (seed % 4)}, seed);
          ++seed;
        }
      }
    }
  }
}

TEST(RopeKvWriteTest, AddsBiasesAndNormsHeadsBeforeItRotates) {
  uint64_t seed = 100;
  for (const NumberType dtype : kTypes) {
    for (const int32_t head_size : {64, 80, 128}) {
      for (const auto& [biased, normed] : {std::pair{true, false}, {false, true}, {true, true}}) {
        const int32_t rotary_dim = seed % 3 == 0 ? head_size / 2 : head_size;
        ExpectRopeKvWriteEqualsReference({dtype, false, head_size, rotary_dim, 16, biased, normed}, seed++);
      }
    }
  }
}

TEST(BlockMoveTest, CopiesGathersAndScatters) {
  for (const int64_t block_bytes : {16, 4096 + 48, 3 * 65536 + 16}) {
    const int64_t stride = block_bytes + 32, blocks = 9;
    test::Random random(static_cast<uint64_t>(block_bytes));
    DeviceBuffer<std::byte> pool(blocks * stride), staging(4 * block_bytes);
    for (int64_t i = 0; i < pool.size(); ++i) pool[i] = static_cast<std::byte>(random.Bits());
    std::vector<std::byte> expected(pool.data(), pool.data() + pool.size());
    const auto copy = [&](int64_t from, int64_t to) {
      std::memcpy(expected.data() + to * stride, expected.data() + from * stride, static_cast<size_t>(block_bytes));
    };
    const DeviceBuffer<int32_t> from(std::vector<int32_t>{3, 3, 0, 8}), to(std::vector<int32_t>{5, 1, 7, 2});
    BlockMove({}, {pool.data(), pool.data(), stride, stride, block_bytes, from.data(), to.data(), 4});
    copy(3, 5), copy(3, 1), copy(0, 7), copy(8, 2);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), pool.data())) << "copy of " << block_bytes;

    BlockMove({}, {pool.data(), staging.data(), stride, block_bytes, block_bytes, from.data(), nullptr, 4});
    for (int64_t i = 0; i < 4; ++i) {
      EXPECT_EQ(std::memcmp(staging.data() + i * block_bytes, pool.data() + from[i] * stride,
                            static_cast<size_t>(block_bytes)),
                0);
    }
    BlockMove({}, {staging.data(), pool.data(), block_bytes, stride, block_bytes, nullptr, to.data(), 3});
    copy(3, 5), copy(3, 1), copy(0, 7);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), pool.data())) << "scatter of " << block_bytes;
  }
}

TEST(BlockMoveTest, OffsetsPass32Bits) {
  DeviceBuffer<std::byte> pool(40'000LL * 1'000'000);  // 40 GB, of which two blocks are touched
  const DeviceBuffer<int32_t> from(std::vector<int32_t>{39'999}), to(std::vector<int32_t>{20'001});
  for (const int64_t block : {39'999, 20'001}) pool.Open(block * 1'000'000, 4096);
  pool[39'999'000'017] = std::byte{42};
  BlockMove({}, {pool.data(), pool.data(), 1'000'000, 1'000'000, 4096, from.data(), to.data(), 1});
  EXPECT_EQ(pool[20'001'000'017], std::byte{42});
}

TEST(RmsNormTest, EqualsReferenceAndUpdatesTheResidual) {
  for (const NumberType dtype : kTypes) {
    for (const int64_t hidden : {8, 64, 1000, 4096 + 8}) {
      for (const bool with_delta : {false, true}) {
        test::Random random(static_cast<uint64_t>(hidden));
        const int64_t tokens = 3;
        const Numbers residual = Numbers::Of(dtype, tokens * hidden, random),
                      weight = Numbers::Of(dtype, hidden, random);
        const Numbers delta = Numbers::Of(dtype, tokens * hidden, random), out(dtype, tokens * hidden);
        std::vector<double> sum = residual.Slice(0, tokens * hidden), expected;
        for (int64_t i = 0; with_delta && i < delta.count; ++i) sum[static_cast<size_t>(i)] += delta[i];
        RmsNorm({}, {dtype, residual.data(), with_delta ? delta.data() : nullptr, weight.data(), out.data(), tokens,
                     hidden, 1e-5f});
        const std::string name = "hidden " + std::to_string(hidden);
        test::ExpectNear(residual.Floats(), sum, Tolerance(dtype), name + ", residual");
        for (int64_t t = 0; t < tokens; ++t) {  // the norm is that of the residual as stored
          Append(expected, reference::RmsNorm(residual.Slice(t * hidden, hidden), weight.Slice(0, hidden), 1e-5));
        }
        test::ExpectNear(out.Floats(), expected, Tolerance(dtype) + 1e-6, name);
      }
    }
  }
}

TEST(LayerNormTest, EqualsReferenceAndUpdatesTheResidual) {
  for (const NumberType dtype : kTypes) {
    for (const int64_t hidden : {8, 64, 1000, 4096 + 8}) {
      for (const bool with_delta : {false, true}) {
        for (const bool biased : {false, true}) {
          test::Random random(static_cast<uint64_t>(hidden));
          const int64_t tokens = 3, count = tokens * hidden;
          const Numbers residual = Numbers::Of(dtype, count, random), weight = Numbers::Of(dtype, hidden, random),
                        bias = Numbers::Of(dtype, hidden, random), delta = Numbers::Of(dtype, count, random),
                        out(dtype, count);
          for (int64_t i = 0; i < count; ++i) {  // a mean above the spread
            reference::WriteNumber(residual.data(), dtype, i, residual[i] + 5);
          }
          std::vector<double> sum = residual.Slice(0, count), expected;
          for (int64_t i = 0; with_delta && i < count; ++i) sum[static_cast<size_t>(i)] += delta[i];
          LayerNorm({}, {dtype, residual.data(), with_delta ? delta.data() : nullptr, weight.data(),
                         biased ? bias.data() : nullptr, out.data(), tokens, hidden, 1e-5f});
          const std::string name = "hidden " + std::to_string(hidden);
          test::ExpectNear(residual.Floats(), sum, Tolerance(dtype), name + ", residual");
          for (int64_t t = 0; t < tokens; ++t) {  // the norm is that of the residual as stored
            Append(expected, reference::LayerNorm(residual.Slice(t * hidden, hidden), weight.Slice(0, hidden),
                                                  biased ? bias.Slice(0, hidden) : std::vector<double>(), 1e-5));
          }
          test::ExpectNear(out.Floats(), expected, Tolerance(dtype) + 4e-6, name);
          if (with_delta) continue;
          LayerNorm({}, {dtype, residual.data(), nullptr, weight.data(), biased ? bias.data() : nullptr,
                         residual.data(), tokens, hidden, 1e-5f});
          EXPECT_EQ(residual.Floats(), out.Floats()) << name << ", in place";
        }
      }
    }
  }
}

TEST(ActivateTest, EqualsReferenceFromTinyToHugeNumbers) {
  for (const NumberType dtype : kTypes) {
    for (const Activation activation :
         {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh, Activation::kRelu}) {
      for (const int64_t columns : {8, 1032, 5000}) {
        for (const bool biased : {false, true}) {
          test::Random random(8);
          const int64_t tokens = 3;
          const Numbers rows = Numbers::Of(dtype, tokens * columns, random), bias = Numbers::Of(dtype, columns, random);
          for (const auto& [at, number] : {std::pair{0, -120.0}, {1, 120.0}, {2, 0.01}, {3, -4.0}}) {
            reference::WriteNumber(rows.data(), dtype, at, number);  // exp(120) overflows
          }
          std::vector<double> expected;
          for (int64_t i = 0; i < rows.count; ++i) {
            expected.push_back(reference::Activate(rows[i] + (biased ? bias[i % columns] : 0), activation));
          }
          Activate({}, {dtype, rows.data(), biased ? bias.data() : nullptr, tokens, columns, activation});
          test::ExpectNear(rows.Floats(), expected, Tolerance(dtype) + 1e-6, "columns " + std::to_string(columns));
        }
      }
    }
  }
}

TEST(AddRowsTest, AddsRowToRowOrOneToAll) {
  for (const NumberType dtype : kTypes) {
    for (const int64_t columns : {8, 1032, 5000}) {
      for (const bool one_for_all : {false, true}) {
        test::Random random(9);
        const int64_t tokens = 3;
        const Numbers to = Numbers::Of(dtype, tokens * columns, random),
                      from = Numbers::Of(dtype, one_for_all ? columns : tokens * columns, random);
        std::vector<double> expected = to.Slice(0, to.count);
        for (int64_t i = 0; i < to.count; ++i) expected[static_cast<size_t>(i)] += from[one_for_all ? i % columns : i];
        AddRows({}, {dtype, to.data(), from.data(), tokens, columns, one_for_all});
        test::ExpectNear(to.Floats(), expected, Tolerance(dtype), "columns " + std::to_string(columns));
      }
    }
  }
}

TEST(EmbeddingTest, AddsRowsOfATableWhoseFirstOnesNobodyAsksFor) {
  for (const NumberType dtype : kTypes) {
    const int64_t hidden = 2056, rows = 7, offset = 2;
    test::Random random(10);
    const Numbers table = Numbers::Of(dtype, rows * hidden, random), out = Numbers::Of(dtype, 3 * hidden, random);
    const std::vector<int32_t> positions{0, 4, 1};
    const DeviceBuffer<int32_t> ids(positions);
    std::vector<double> expected = out.Slice(0, out.count);
    for (int64_t i = 0; i < out.count; ++i) {
      expected[static_cast<size_t>(i)] +=
          table[(positions[static_cast<size_t>(i / hidden)] + offset) * hidden + i % hidden];
    }
    Embedding({}, {dtype, table.data(), ids.data(), out.data(), 3, hidden, -offset, rows, true});
    test::ExpectNear(out.Floats(), expected, Tolerance(dtype), "learned positions");
  }
}

TEST(GateMulTest, EqualsReference) {
  for (const NumberType dtype : kTypes) {
    for (const int64_t columns : {8, 1032, 5000}) {
      for (const bool interleaved : {false, true}) {
        test::Random random(3);
        const int64_t tokens = 3;
        const Numbers in = Numbers::Of(dtype, tokens * 2 * columns, random), out(dtype, tokens * columns);
        reference::WriteNumber(in.data(), dtype, 0, -120);  // exp(120) overflows
        const Activation activation = columns == 1032 ? Activation::kGeluTanh : Activation::kSilu;
        GateMul({}, {dtype, in.data(), out.data(), tokens, columns, interleaved, activation});
        std::vector<double> expected;
        for (int64_t t = 0; t < tokens; ++t) {
          std::vector<double> gate, up;
          for (int64_t i = 0; i < columns; ++i) {
            const int64_t row = 2 * t * columns, at = interleaved ? i / 8 * 16 + i % 8 : i;
            gate.push_back(in[row + at]);
            up.push_back(in[row + at + (interleaved ? 8 : columns)]);
          }
          Append(expected, reference::GateMul(gate, up, activation));
        }
        test::ExpectNear(out.Floats(), expected, Tolerance(dtype), "columns " + std::to_string(columns));
      }
    }
  }
}

TEST(GateMulTest, ClampsGatesFromAboveAndUpsOnBothSides) {
  for (const NumberType dtype : kTypes) {
    test::Random random(12);
    const int64_t tokens = 2, columns = 40;
    const Numbers in = Numbers::Of(dtype, tokens * 2 * columns, random), out(dtype, tokens * columns);
    GateMul({}, {dtype, in.data(), out.data(), tokens, columns, true, Activation::kClampedSilu, 0.7f});
    std::vector<double> expected;
    for (int64_t t = 0; t < tokens; ++t) {
      std::vector<double> gate, up;
      for (int64_t i = 0; i < columns; ++i) {
        const int64_t at = 2 * t * columns + i / 8 * 16 + i % 8;
        gate.push_back(in[at]);
        up.push_back(in[at + 8]);
      }
      Append(expected, reference::GateMul(gate, up, Activation::kClampedSilu, 0.7f));
    }
    test::ExpectNear(out.Floats(), expected, Tolerance(dtype) + 1e-6, "clamped");
  }
}

TEST(EmbeddingTest, LooksUpRowsOfItsShardAndZerosElsewhere) {
  for (const NumberType dtype : kTypes) {
    const int64_t hidden = 2056, rows = 5, first_id = 100;
    test::Random random(4);
    const Numbers table = Numbers::Of(dtype, rows * hidden, random);
    const std::vector<int32_t> ids{104, 100, 99, 105, 102, 0};
    const DeviceBuffer<int32_t> device_ids(ids);
    const Numbers out = Numbers::Of(dtype, static_cast<int64_t>(ids.size()) * hidden, random);
    Embedding({}, {dtype, table.data(), device_ids.data(), out.data(), static_cast<int64_t>(ids.size()), hidden,
                   first_id, rows});
    for (int64_t t = 0; t < device_ids.size(); ++t) {
      const int64_t row = ids[static_cast<size_t>(t)] - first_id;
      const bool here = row >= 0 && row < rows;
      EXPECT_EQ(out.Slice(t * hidden, hidden),
                here ? table.Slice(row * hidden, hidden) : std::vector<double>(static_cast<size_t>(hidden)));
    }
  }
}

TEST(EmbeddingTest, ScalesTheRowsThatItFinds) {
  for (const NumberType dtype : kTypes) {
    const int64_t hidden = 72, rows = 5;
    test::Random random(14);
    const Numbers table = Numbers::Of(dtype, rows * hidden, random), out(dtype, hidden);
    const DeviceBuffer<int32_t> ids(std::vector<int32_t>{3});
    Embedding({}, {dtype, table.data(), ids.data(), out.data(), 1, hidden, 0, rows, false, 2.3f});
    std::vector<double> expected = table.Slice(3 * hidden, hidden);
    for (double& x : expected) x *= 2.3f;
    test::ExpectNear(out.Floats(), expected, Tolerance(dtype), "scaled");
  }
}

TEST(RmsNormTest, AddsWhatItNormedWhereItIsToldSo) {
  for (const NumberType dtype : kTypes) {
    const int64_t hidden = 1000, tokens = 3;
    test::Random random(15);
    const Numbers x = Numbers::Of(dtype, tokens * hidden, random), weight = Numbers::Of(dtype, hidden, random);
    const Numbers sum = Numbers::Of(dtype, tokens * hidden, random);
    std::vector<double> expected = sum.Slice(0, tokens * hidden);
    for (int64_t t = 0; t < tokens; ++t) {
      const auto normed = reference::RmsNorm(x.Slice(t * hidden, hidden), weight.Slice(0, hidden), 1e-5);
      for (int64_t i = 0; i < hidden; ++i)
        expected[static_cast<size_t>(t * hidden + i)] += normed[static_cast<size_t>(i)];
    }
    RmsNorm({}, {dtype, x.data(), nullptr, weight.data(), sum.data(), tokens, hidden, 1e-5f, true});
    test::ExpectNear(sum.Floats(), expected, Tolerance(dtype) + 1e-6, "sum");
  }
}

TEST(SumSquaresTest, SumsWhatItIsToldOfQueriesAndOfKeys) {
  for (const NumberType dtype : kTypes) {
    const int64_t tokens = 3, stride = 900, queries = 600, first_key = 664, keys = 130;
    test::Random random(16);
    const Numbers rows = Numbers::Of(dtype, tokens * stride, random);
    const DeviceBuffer<float> squares(std::vector<float>(2 * tokens, -1));
    SumSquares({}, {dtype, rows.data(), stride, tokens, queries, first_key, keys, squares.data()});
    for (int64_t t = 0; t < tokens; ++t) {
      double of_queries = 0, of_keys = 0;
      for (int64_t i = 0; i < queries; ++i) of_queries += rows[t * stride + i] * rows[t * stride + i];
      for (int64_t i = first_key; i < first_key + keys; ++i) of_keys += rows[t * stride + i] * rows[t * stride + i];
      EXPECT_NEAR(squares[2 * t], of_queries, 1e-4 * of_queries);
      EXPECT_NEAR(squares[2 * t + 1], of_keys, 1e-4 * of_keys);
    }
  }
}

TEST(CapLogitsTest, ScalesAndCapsTheColumnsOfEveryRow) {
  for (const float cap : {0.0f, 30.0f}) {
    const int64_t rows = 2, columns = 300, stride = 304;
    test::Random random(17);
    std::vector<float> before = random.Floats(rows * stride);
    for (size_t i = 0; i < before.size(); ++i) before[i] *= i % 2 == 0 ? 1e3f : 10.0f;
    const DeviceBuffer<float> logits(before);
    CapLogits({}, {logits.data(), rows, columns, stride, 0.3f, cap});
    for (int64_t i = 0; i < rows * stride; ++i) {
      const float x = before[static_cast<size_t>(i)];
      const double want = i % stride < columns ? reference::Capped(x, 0.3f, cap) : x;
      EXPECT_NEAR(logits[i], want, 1e-5 * std::max(1.0, std::fabs(want)));
    }
  }
}

TEST(RowOpsTest, NoRowsAreNoLaunch) {
  RmsNorm({}, {NumberType::kF16, nullptr, nullptr, nullptr, nullptr, 0, 64, 1e-5f});
  GateMul({}, {NumberType::kF16, nullptr, nullptr, 0, 64, false});
  Embedding({}, {NumberType::kF16, nullptr, nullptr, nullptr, 0, 64, 0, 0});
  BlockMove({}, {nullptr, nullptr, 16, 16, 16, nullptr, nullptr, 0});
}

TEST(RowOpsTest, RowTooShortForItsBufferIsFound) {
  test::Random random(5);
  const Numbers in = Numbers::Of(NumberType::kF32, 2 * 2 * 64, random),
                out(NumberType::kF32, 64);  // room for one row, not two
  simt::ExpectError(
      [&] {
        GateMul({}, {NumberType::kF32, in.data(), out.data(), 2, 64, false});
      },
      "global access out of bounds");
}

}  // namespace
}  // namespace quire::kernels

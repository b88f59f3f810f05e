// Tests operations that a GPU runs in one kernel and the CPU in several. Also tests those properties of the other
// operations that only an emulator or a GPU shows (tests/kernels/elementwise_test.cc tests their other properties).
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "kernels/block_copy.h"
#include "kernels/cuda/decode_reference.h"
#include "kernels/cuda/elementwise/rope_kv_write.h"
#include "kernels/gate_mul.h"
#include "simt/device_buffer.h"
#include "simt/expect_error.h"
#include "tests/kernels/numbers.h"
#include "tests/kernels/reference.h"
#include "tests/support/random.h"

namespace quire::kernels {
namespace {

using reference::ReadNumber;
using simt::DeviceBuffer;

constexpr NumberType kTypes[] = {NumberType::kF32, NumberType::kF16, NumberType::kBF16};

/// Returns the tolerance of a result that was rounded once to the type, relative to max(1, |result|).
double Tolerance(NumberType type) {
  return type == NumberType::kF32 ? 1e-6 : type == NumberType::kF16 ? 0x1p-11 + 1e-6 : 0x1p-8 + 1e-6;
}

struct RopeShape {
  NumberType dtype;
  bool fp8_cache;
  int32_t head_size, rotary_dim, block_size;
  bool biased = false, normed = false, values_normed = false, norm_rotated = false;
  NumberType CachedType() const { return fp8_cache ? NumberType::kFp8E4M3 : dtype; }
};

/// Writes three rows and leaves out a fourth. The stride of rows is larger than their length.
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
  const int64_t block_elements = int64_t{kv_heads} * size * shape.block_size + 64;  // a gap lies between the blocks
  const DeviceBuffer<std::byte> keys(blocks * block_elements * ByteSize(shape.CachedType()), std::byte{0x7e});
  const DeviceBuffer<std::byte> values(keys.size(), std::byte{0x7e});
  const DeviceBuffer<float> device_cos_sin(cos_sin);
  const DeviceBuffer<int32_t> device_positions(positions);
  const DeviceBuffer<int64_t> device_slots(slots);
  const PagedCache cache{keys.data(), values.data(),    block_elements,     block_elements,  kv_heads,
                         size,        shape.block_size, shape.CachedType(), fp8 ? 0.02f : 1, fp8 ? 0.01f : 1};
  const Numbers bias = Numbers::Of(shape.dtype, width, random), query_norm = Numbers::Of(shape.dtype, size, random),
                key_norm = Numbers::Of(shape.dtype, size, random), value_norm = Numbers::Of(shape.dtype, size, random);
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
                   .value_norm = shape.values_normed ? value_norm.data() : nullptr,
                   .norm_rotated = shape.norm_rotated,
                   .epsilon = static_cast<float>(epsilon)});

  // Numbers are rounded after their bias or norm, and a rotation adds two such numbers; with a norm after the rotation
  // they are rounded once more. So up to four rounding errors add up.
  const double own = Tolerance(shape.dtype) * (shape.biased || shape.normed ? 4 : 1) + 1e-6;
  // An E4M3 number has 3 bits after the point, and its smallest step is 2^-9 of the scale.
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
      const auto norm = [&] {
        const Numbers& weight = is_value ? value_norm : head < heads ? query_norm : key_norm;
        expected = reference::RmsNorm(expected, weight.Slice(0, size), epsilon);
      };
      const bool norms = (is_value ? shape.values_normed : shape.normed) && slots[static_cast<size_t>(t)] >= 0;
      if (norms && !shape.norm_rotated) norm();
      const std::vector<double> unrotated = expected;
      if (slots[static_cast<size_t>(t)] >= 0 && !is_value) {
        const std::vector<double> turned = reference::Rope({expected.begin(), expected.begin() + shape.rotary_dim},
                                                           positions[static_cast<size_t>(t)], 10000.0);
        std::copy(turned.begin(), turned.end(), expected.begin());
      }
      if (norms && shape.norm_rotated) norm();
      const std::vector<double>& kept = shape.norm_rotated ? expected : unrotated;
      for (int64_t d = 0; d < size; ++d) {
        const double want = expected[static_cast<size_t>(d)], bound = tolerance * std::max(1.0, std::fabs(want));
        const double in_row = qkv[t * stride + head * size + d];
        if (head < heads) {
          ASSERT_NEAR(in_row, want, own * std::max(1.0, std::fabs(want))) << head << " " << d;
          continue;
        }
        if (shape.biased || shape.normed) {
          const double plain = kept[static_cast<size_t>(d)];
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
  for (int64_t i = 0; i < keys.size(); ++i) {  // no other byte was written
    if (!written_keys.count(i / element)) {
      ASSERT_EQ(keys[i], std::byte{0x7e});
    }
    if (!written_values.count(i / element)) {
      ASSERT_EQ(values[i], std::byte{0x7e});
    }
  }
}

TEST(RopeKvWriteTest, RopeKvWrite_EqualsReference_AndWritesOnlyItsSlots) {
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

TEST(RopeKvWriteTest, RopeKvWrite_AddsBiasesAndNormsHeads_BeforeItRotates) {
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

TEST(RopeKvWriteTest, RopeKvWrite_NormsHeadsAfterTheirRotation_WhenNormRotatedIsSet) {
  uint64_t seed = 400;
  for (const NumberType dtype : kTypes) {
    for (const bool fp8 : {false, true}) {
      for (const bool biased : {false, true}) {
        const int32_t size = seed % 3 == 0 ? 80 : 64, rotary_dim = seed % 2 == 0 ? size / 2 : size;
        ExpectRopeKvWriteEqualsReference({dtype, fp8, size, rotary_dim, 16, biased, true, biased, true}, seed++);
      }
    }
  }
}

TEST(RopeKvWriteTest, RopeKvWrite_NormsValues_WhenTheyHaveANorm) {
  uint64_t seed = 200;
  for (const NumberType dtype : kTypes) {
    for (const bool fp8 : {false, true}) {
      for (const int32_t head_size : {64, 512})
        ExpectRopeKvWriteEqualsReference({dtype, fp8, head_size, head_size, 16, seed % 2 == 0, true, true}, seed++);
    }
  }
}

// A layer that uses the keys and values of another layer has only queries.
TEST(RopeKvWriteTest, RopeKvWrite_NormsAndRotatesQueriesOnly_WhenThereAreNoKvHeads) {
  test::Random random(300);
  const int32_t heads = 3, size = 64, position = 7;
  const Numbers queries = Numbers::Of(NumberType::kF32, heads * size, random);
  const Numbers norm = Numbers::Of(NumberType::kF32, size, random);
  const std::vector<double> before = queries.Slice(0, queries.count);
  std::vector<float> table(static_cast<size_t>((position + 1) * size));
  for (int i = 0; i < size / 2; ++i) {
    const double angle = position * std::pow(10000.0, -2.0 * i / size);
    table[static_cast<size_t>(position * size + i)] = static_cast<float>(std::cos(angle));
    table[static_cast<size_t>(position * size + size / 2 + i)] = static_cast<float>(std::sin(angle));
  }
  const DeviceBuffer<float> cos_sin(table);
  const DeviceBuffer<int32_t> positions(std::vector<int32_t>{position});
  const DeviceBuffer<int64_t> slots(std::vector<int64_t>{17});
  const DeviceBuffer<std::byte> kept(4 * 64 * 16 * 4, std::byte{0x7e});
  RopeKvWrite({}, {.dtype = NumberType::kF32,
                   .qkv = queries.data(),
                   .row_stride = heads * size,
                   .cos_sin = cos_sin.data(),
                   .positions = positions.data(),
                   .slots = slots.data(),
                   .num_tokens = 1,
                   .num_heads = heads,
                   .rotary_dim = size,
                   .cache = {kept.data(), kept.data(), 64 * 16, 64 * 16, 0, size, 16, NumberType::kF32, 1, 1},
                   .query_norm = norm.data(),
                   .epsilon = 1e-3f});
  for (int64_t head = 0; head < heads; ++head) {
    const std::vector<double> expected =
        reference::Rope(reference::RmsNorm({before.begin() + head * size, before.begin() + (head + 1) * size},
                                           norm.Slice(0, size), 1e-3),
                        position, 10000.0);
    for (int64_t d = 0; d < size; ++d) ASSERT_NEAR(queries[head * size + d], expected[static_cast<size_t>(d)], 1e-5);
  }
  for (int64_t i = 0; i < kept.size(); ++i) ASSERT_EQ(kept[i], std::byte{0x7e});
}

TEST(CudaBlockCopyTest, BlockCopy_CopiesBlocks_BeyondOffsetsOf32Bits) {
  DeviceBuffer<std::byte> pool(40'000LL * 1'000'000);  // a pool of 40 GB, of which two blocks are touched
  const DeviceBuffer<int32_t> pairs(std::vector<int32_t>{39'999, 20'001});
  for (const int64_t block : {39'999, 20'001}) pool.Open(block * 1'000'000, 1'000'000);
  pool[39'999'000'017] = std::byte{42};
  BlockCopy(CudaStream{}, {pool.data(), pool.data(), 1'000'000, pairs.data(), 1});
  EXPECT_EQ(pool[20'001'000'017], std::byte{42});
}

TEST(CudaGateMulTest, Emulator_FindsAnOutputBufferThatIsTooShort) {
  test::Random random(5);
  const Numbers in = Numbers::Of(NumberType::kF32, 2 * 2 * 64, random),
                out(NumberType::kF32, 64);  // room for one row, not two
  simt::ExpectError(
      [&] {
        GateMul(CudaStream{}, {NumberType::kF32, in.data(), out.data(), 2, 64, false});
      },
      "global access out of bounds");
}

}  // namespace
}  // namespace quire::kernels

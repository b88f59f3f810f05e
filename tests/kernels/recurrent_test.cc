// Tests operations of layers with a recurrent state, on the CPU and on a GPU. Sequences are cut into steps in many
// ways.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "kernels/causal_conv.h"
#include "kernels/gate_squares.h"
#include "kernels/gated_delta.h"
#include "kernels/gated_norm.h"
#include "kernels/sigmoid_gate.h"
#include "kernels/state_space.h"
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
using Floats = std::vector<float>;
using Doubles = std::vector<double>;

constexpr int64_t kLengths[] = {1, 23, 5, 12};
constexpr int64_t kSequences = std::size(kLengths);

Floats RandomFloats(int64_t count, Random& random, float size) {
  Floats numbers(static_cast<size_t>(count));
  for (float& x : numbers) x = (static_cast<float>(random.Below(2'000'001)) / 1e6f - 1) * size;
  return numbers;
}

/// Returns the index of a sequence's first row. The rows of all sequences follow each other: [tokens, width].
int64_t FirstRow(int64_t sequence) { return std::accumulate(kLengths, kLengths + sequence, int64_t{0}); }
int64_t AllRows() { return FirstRow(kSequences); }

/// Returns columns [first, first + count) of a sequence's rows.
Doubles Columns(const Floats& rows, int64_t width, int64_t sequence, int64_t first, int64_t count) {
  Doubles out;
  for (int64_t t = FirstRow(sequence); t < FirstRow(sequence) + kLengths[sequence]; ++t) {
    for (int64_t i = first; i < first + count; ++i) out.push_back(rows[static_cast<size_t>(t * width + i)]);
  }
  return out;
}

/// States in blocks that are scattered over a pool of NaN, in memory that kernels of either device may access.
class States {
 public:
  /// `gap`: bytes at the end of each block that no state uses.
  States(int64_t bytes, int64_t offset, int64_t block_bytes, int64_t gap = 0)
      : offset_(offset),
        block_bytes_(block_bytes),
        stride_(block_bytes + gap),
        per_state_((offset + bytes + block_bytes - 1) / block_bytes),
        pool_((kSequences * per_state_ + 1) * stride_, std::byte{0xff}),
        step_blocks_((kSequences + 1) * per_state_),
        query_start_(kSequences + 2),
        context_len_(kSequences + 1),
        held_(kSequences + 1) {
    const int64_t blocks = kSequences * per_state_;
    for (int64_t i = 0; i < blocks; ++i) blocks_.push_back(static_cast<int32_t>(1 + i * 7 % blocks));
    if (blocks % 7 == 0) std::iota(blocks_.rbegin(), blocks_.rend(), 1);
  }

  /// Returns the states of a step's sequences. A padding sequence with one row and the null block follows them. With
  /// `hold` the step leaves all states as they are.
  StateView View(const std::vector<int64_t>& members, const std::vector<int64_t>& counts,
                 const std::vector<int64_t>& done, bool hold) {
    const int64_t count = std::ssize(members);
    for (int64_t i = 0; i < count; ++i) {
      const auto s = static_cast<size_t>(members[static_cast<size_t>(i)]);
      std::copy_n(blocks_.begin() + static_cast<int64_t>(s) * per_state_, per_state_,
                  step_blocks_.data() + i * per_state_);
      query_start_[i + 1] = query_start_[i] + static_cast<int32_t>(counts[s]);
      context_len_[i] = static_cast<int32_t>(done[s] + counts[s]);
      held_[i] = 1;
    }
    std::fill_n(step_blocks_.data() + count * per_state_, per_state_, 0);
    query_start_[count + 1] = query_start_[count] + 1;
    context_len_[count] = held_[count] = 0;
    return {.pool = pool_.data(),
            .block_stride = stride_,
            .blocks = step_blocks_.data(),
            .blocks_per_state = per_state_,
            .offset = offset_,
            .query_start = query_start_.data(),
            .context_len = context_len_.data(),
            .num_sequences = count + 1,
            .held = hold ? held_.data() : nullptr,
            .bytes_of_block = stride_ > block_bytes_ ? block_bytes_ : 0};
  }

  /// Returns true if only bytes [offset, offset + bytes) of every state were written.
  bool OthersUntouched(int64_t bytes) const {
    for (int64_t s = 0; s < kSequences; ++s) {
      for (int64_t at = 0; at < per_state_ * block_bytes_; ++at) {
        if (at >= offset_ && at < offset_ + bytes) continue;
        if (!Untouched(BlockOf(s, at / block_bytes_) * stride_ + at % block_bytes_)) return false;
      }
      for (int64_t at = 0; at < per_state_ * (stride_ - block_bytes_); ++at) {
        const int64_t gap = stride_ - block_bytes_;
        if (!Untouched(BlockOf(s, at / gap) * stride_ + block_bytes_ + at % gap)) return false;
      }
    }
    return std::all_of(pool_.data(), pool_.data() + stride_, [](std::byte b) { return b == std::byte{0xff}; });
  }

 private:
  int64_t BlockOf(int64_t sequence, int64_t index) const {
    return blocks_[static_cast<size_t>(sequence * per_state_ + index)];
  }
  bool Untouched(int64_t at) const { return pool_[at] == std::byte{0xff}; }

  int64_t offset_, block_bytes_, stride_, per_state_;
  std::vector<int32_t> blocks_;
  DeviceBuffer<std::byte> pool_;
  DeviceBuffer<int32_t> step_blocks_, query_start_, context_len_, held_;
};

/// How sequences are cut into steps.
enum class Cut {
  kWhole,   // one step
  kSteps,   // a step has some of the next tokens of some sequences
  kDrafts,  // like kSteps, but before each step all remaining tokens of its sequences are computed without advancing
            // the states; blocks have gaps
};

/// Calls run(rows, states) for each step until all sequences are computed. `rows`: the indices of the step's rows,
/// followed by row 0 as padding.
template <class Run>
void InSteps(States& states, Cut cut, Random& random, const Run& run) {
  std::vector<int64_t> done(kSequences);
  while (done != std::vector<int64_t>(std::begin(kLengths), std::end(kLengths))) {
    std::vector<int64_t> members, counts(kSequences), left(kSequences);
    for (int64_t s = 0; s < kSequences; ++s) {
      const auto i = static_cast<size_t>(s);
      left[i] = kLengths[s] - done[i];
      counts[i] = cut == Cut::kWhole ? left[i] : std::min(left[i], static_cast<int64_t>(random.Below(5)));
      if (counts[i] > 0) members.push_back(s);
    }
    const auto step = [&](const std::vector<int64_t>& count, bool hold) {
      std::vector<int64_t> rows;
      for (const int64_t s : members) {
        for (int64_t t = 0; t < count[static_cast<size_t>(s)]; ++t)
          rows.push_back(FirstRow(s) + done[static_cast<size_t>(s)] + t);
      }
      rows.push_back(0);  // a padding row is computed from a zero state, as the first token is
      run(rows, states.View(members, count, done, hold));
    };
    if (cut == Cut::kDrafts) step(left, true);
    step(counts, false);
    for (size_t i = 0; i < done.size(); ++i) done[i] += counts[i];
  }
}

Floats Gather(const Floats& all, int64_t width, const std::vector<int64_t>& rows) {
  Floats out;
  for (const int64_t row : rows) out.insert(out.end(), all.begin() + row * width, all.begin() + (row + 1) * width);
  return out;
}

void Scatter(const Floats& from, int64_t width, const std::vector<int64_t>& rows, Floats& all) {
  for (size_t i = 0; i < rows.size(); ++i)
    std::copy_n(from.begin() + static_cast<int64_t>(i) * width, width, all.begin() + rows[i] * width);
}

/// Returns the numbers in the type that a device computes in, in memory that its kernels may access.
Numbers InType(NumberType dtype, const Floats& numbers) {
  return Numbers::Of(dtype, Doubles(numbers.begin(), numbers.end()));
}

/// Returns the address of number `i`.
std::byte* At(const Numbers& numbers, int64_t i) {
  return static_cast<std::byte*>(numbers.data()) + i * ByteSize(numbers.type);
}

/// A block size in bytes that a state does not fill evenly. On the CPU, block ends also cut numbers.
template <class Device>
constexpr int64_t kOddBlock = 30;
template <>
constexpr int64_t kOddBlock<test_case::Cuda> = 36;

struct ConvCase {
  int64_t channels, taps;
  bool gated, silu;
};

/// Returns the outputs of all sequences. Expects that no byte outside their states changed.
template <class Stream>
Floats Convolve(const Stream& stream, NumberType dtype, const ConvCase& c, const Floats& rows, const Floats& weight,
                const Floats& bias, Cut cut, int64_t block_bytes) {
  const int64_t bytes = CausalConvStateBytes(c.channels, c.taps), width = 3 * c.channels;
  const DeviceBuffer<float> taps(weight), biases(bias);
  States states(bytes, 24, block_bytes, cut == Cut::kDrafts ? 16 : 0);
  Random random(3);
  Floats out(static_cast<size_t>(AllRows() * c.channels));
  InSteps(states, cut, random, [&](const std::vector<int64_t>& step, const StateView& view) {
    const Numbers in = InType(dtype, Gather(rows, width, step)), made(dtype, std::ssize(step) * c.channels);
    CausalConv(stream, {.dtype = dtype,
                        .x = At(in, 2 * c.channels),
                        .in_gate = c.gated ? in.data() : nullptr,
                        .out_gate = c.gated ? At(in, c.channels) : nullptr,
                        .x_stride = width,
                        .out = made.data(),
                        .out_stride = c.channels,
                        .weight = taps.data(),
                        .bias = bias.empty() ? nullptr : biases.data(),
                        .channels = c.channels,
                        .taps = c.taps,
                        .silu = c.silu,
                        .state = view});
    Scatter(made.Floats(), c.channels, step, out);
  });
  EXPECT_TRUE(states.OthersUntouched(bytes));
  return out;
}

template <class Device>
class CausalConvTest : public OpTest<Device> {};
TYPED_TEST_SUITE(CausalConvTest, Devices, DeviceName);

TYPED_TEST(CausalConvTest, CausalConv_EqualsReference_HoweverSequencesAreCutIntoSteps) {
  this->ForEachType([&](NumberType dtype, double tolerance) {
    for (const ConvCase& c :
         {ConvCase{1, 2, false, false}, {33, 3, true, false}, {140, 4, false, true}, {7, 8, true, true}}) {
      SCOPED_TRACE(testing::Message() << LayoutOf(dtype).name << ", " << c.channels << " channels");
      Random random(static_cast<uint64_t>(c.channels));
      const int64_t width = 3 * c.channels;
      const Floats rows = InType(dtype, RandomFloats(AllRows() * width, random, 2)).Floats(),
                   weight = RandomFloats(c.taps * c.channels, random, 1),
                   bias = RandomFloats(c.silu ? c.channels : 0, random, 1);
      Doubles expected;
      for (int64_t s = 0; s < kSequences; ++s) {
        Doubles in = Columns(rows, width, s, 2 * c.channels, c.channels);
        const Doubles in_gate = Columns(rows, width, s, 0, c.channels),
                      out_gate = Columns(rows, width, s, c.channels, c.channels);
        for (size_t i = 0; c.gated && i < in.size(); ++i) in[i] *= in_gate[i];
        Doubles out = reference::CausalConv(in, {weight.begin(), weight.end()}, {bias.begin(), bias.end()}, c.channels,
                                            c.taps, c.silu);
        for (size_t i = 0; c.gated && i < out.size(); ++i) out[i] *= out_gate[i];
        expected.insert(expected.end(), out.begin(), out.end());
      }
      const auto convolved = [&](Cut cut, int64_t block_bytes) {
        return Convolve(this->device_.stream, dtype, c, rows, weight, bias, cut, block_bytes);
      };
      const Floats whole = convolved(Cut::kWhole, 1 << 20);
      ExpectNear(whole, expected, tolerance + 1e-6, "convolved");
      EXPECT_EQ(convolved(Cut::kSteps, 1 << 20), whole) << "in steps";
      EXPECT_EQ(convolved(Cut::kSteps, kOddBlock<TypeParam>), whole) << "in small blocks";
      if (!std::is_same_v<TypeParam, test_case::Cuda>) {
        EXPECT_EQ(convolved(Cut::kDrafts, kOddBlock<TypeParam>), whole) << "held";
      }
    }
  });
}

TYPED_TEST(CausalConvTest, CausalConv_GivesEqualResults_InPlace) {
  this->ForEachType([&](NumberType dtype, double) {
    const int64_t channels = 20, taps = 4;
    Random random(1);
    Floats rows = RandomFloats(AllRows() * channels, random, 2);
    rows.insert(rows.end(), rows.begin(), rows.begin() + channels);  // the padding row
    const Numbers in = InType(dtype, rows), out(dtype, in.count);
    const DeviceBuffer<float> weight(RandomFloats(taps * channels, random, 1));
    for (void* to : {out.data(), in.data()}) {
      States states(CausalConvStateBytes(channels, taps), 0, 64);
      InSteps(states, Cut::kWhole, random, [&](const std::vector<int64_t>&, const StateView& view) {
        CausalConv(this->device_.stream, {dtype, in.data(), nullptr, nullptr, channels, to, channels, weight.data(),
                                          nullptr, channels, taps, true, view});
      });
    }
    EXPECT_EQ(in.Floats(), out.Floats());
  });
}

struct DeltaCase {
  int64_t key_heads, value_heads, key_dim, value_dim;

  int64_t keys() const { return key_heads * key_dim; }
  int64_t values() const { return value_heads * value_dim; }
  int64_t width() const { return 2 * keys() + values() + 2 * value_heads; }
};

struct DeltaWeights {
  Floats rate, bias;
};

template <class Stream>
Floats Recur(const Stream& stream, NumberType dtype, const DeltaCase& c, const Floats& rows, const DeltaWeights& w,
             Cut cut, int64_t block_bytes) {
  const int64_t bytes = HeadStateBytes(c.value_heads, c.key_dim, c.value_dim);
  const DeviceBuffer<float> rate(w.rate), bias(w.bias);
  States states(bytes, 12, block_bytes, cut == Cut::kDrafts ? 16 : 0);
  Random random(5);
  Floats out(static_cast<size_t>(AllRows() * c.values()));
  InSteps(states, cut, random, [&](const std::vector<int64_t>& step, const StateView& view) {
    const Numbers in = InType(dtype, Gather(rows, c.width(), step)), made(dtype, std::ssize(step) * c.values());
    const int64_t gates = 2 * c.keys() + c.values();
    GatedDelta(stream, {.dtype = dtype,
                        .queries = in.data(),
                        .keys = At(in, c.keys()),
                        .values = At(in, 2 * c.keys()),
                        .row_stride = c.width(),
                        .betas = At(in, gates),
                        .decays = At(in, gates + c.value_heads),
                        .gate_stride = c.width(),
                        .rate = rate.data(),
                        .bias = bias.data(),
                        .out = made.data(),
                        .key_heads = c.key_heads,
                        .value_heads = c.value_heads,
                        .key_dim = c.key_dim,
                        .value_dim = c.value_dim,
                        .state = view});
    Scatter(made.Floats(), c.values(), step, out);
  });
  EXPECT_TRUE(states.OthersUntouched(bytes));
  return out;
}

Doubles ExpectedOfDelta(const DeltaCase& c, const Floats& rows, const DeltaWeights& w) {
  Doubles expected(static_cast<size_t>(AllRows() * c.values()));
  for (int64_t s = 0; s < kSequences; ++s) {
    for (int64_t h = 0; h < c.value_heads; ++h) {
      const int64_t key_head = h / (c.value_heads / c.key_heads), gates = 2 * c.keys() + c.values();
      const auto column = [&](int64_t first, int64_t count) { return Columns(rows, c.width(), s, first, count); };
      const Doubles out = reference::GatedDelta(
          column(key_head * c.key_dim, c.key_dim), column(c.keys() + key_head * c.key_dim, c.key_dim),
          column(2 * c.keys() + h * c.value_dim, c.value_dim), column(gates + h, 1),
          column(gates + c.value_heads + h, 1), w.rate[static_cast<size_t>(h)], w.bias[static_cast<size_t>(h)],
          c.key_dim, c.value_dim);
      for (int64_t i = 0; i < std::ssize(out); ++i) {
        const int64_t row = FirstRow(s) + i / c.value_dim;
        expected[static_cast<size_t>(row * c.values() + h * c.value_dim + i % c.value_dim)] =
            out[static_cast<size_t>(i)];
      }
    }
  }
  return expected;
}

template <class Device>
class GatedDeltaTest : public OpTest<Device> {};
TYPED_TEST_SUITE(GatedDeltaTest, Devices, DeviceName);

TYPED_TEST(GatedDeltaTest, GatedDelta_EqualsReference_HoweverSequencesAreCutIntoSteps) {
  this->ForEachType([&](NumberType dtype, double tolerance) {
    for (const DeltaCase& c : {DeltaCase{1, 1, 1, 1}, {2, 6, 12, 10}, {3, 3, 16, 33}, {1, 2, 128, 150}}) {
      SCOPED_TRACE(testing::Message() << LayoutOf(dtype).name << ", " << c.value_dim << " columns");
      Random random(static_cast<uint64_t>(c.value_dim));
      const Floats rows = InType(dtype, RandomFloats(AllRows() * c.width(), random, 2)).Floats();
      DeltaWeights w = {RandomFloats(c.value_heads, random, 0.4f), RandomFloats(c.value_heads, random, 1)};
      for (float& r : w.rate) r = std::abs(r);
      w.bias[0] = 25;  // so large that softplus returns its argument
      const auto recurred = [&](Cut cut, int64_t block_bytes) {
        return Recur(this->device_.stream, dtype, c, rows, w, cut, block_bytes);
      };
      const Floats whole = recurred(Cut::kWhole, 1 << 20);
      ExpectNear(whole, ExpectedOfDelta(c, rows, w), tolerance + 2e-6, "out");
      EXPECT_EQ(recurred(Cut::kSteps, 1 << 20), whole) << "in steps";
      EXPECT_EQ(recurred(Cut::kSteps, 33 * kOddBlock<TypeParam>), whole) << "in small blocks";
      if (!std::is_same_v<TypeParam, test_case::Cuda>) {
        EXPECT_EQ(recurred(Cut::kDrafts, 33 * kOddBlock<TypeParam>), whole) << "held";
      }
    }
  });
}

/// The value heads [first, first + value_heads) of a model, as one rank has them.
struct SpaceCase {
  int64_t heads_per_key, first, value_heads, key_dim, value_dim;

  int64_t key_heads() const { return (first + value_heads - 1) / heads_per_key + 1; }
  int64_t keys() const { return key_heads() * key_dim; }
  int64_t values() const { return value_heads * value_dim; }
  int64_t width() const { return 2 * keys() + values() + value_heads; }
};

struct SpaceWeights {
  Floats rate, bias, skip;
};

template <class Stream>
Floats Scan(const Stream& stream, NumberType dtype, const SpaceCase& c, const Floats& rows, const SpaceWeights& w,
            Cut cut, int64_t block_bytes) {
  const int64_t bytes = HeadStateBytes(c.value_heads, c.key_dim, c.value_dim);
  const DeviceBuffer<float> rate(w.rate), bias(w.bias), skip(w.skip);
  States states(bytes, 20, block_bytes, cut == Cut::kDrafts ? 16 : 0);
  Random random(6);
  Floats out(static_cast<size_t>(AllRows() * c.values()));
  InSteps(states, cut, random, [&](const std::vector<int64_t>& step, const StateView& view) {
    const Numbers in = InType(dtype, Gather(rows, c.width(), step)), made(dtype, std::ssize(step) * c.values());
    StateSpace(stream, {.dtype = dtype,
                        .queries = in.data(),
                        .keys = At(in, c.keys()),
                        .values = At(in, 2 * c.keys()),
                        .row_stride = c.width(),
                        .steps = At(in, 2 * c.keys() + c.values()),
                        .rate = rate.data(),
                        .bias = bias.data(),
                        .skip = skip.data(),
                        .out = made.data(),
                        .value_heads = c.value_heads,
                        .heads_per_key = c.heads_per_key,
                        .first_head = c.first,
                        .key_dim = c.key_dim,
                        .value_dim = c.value_dim,
                        .state = view});
    Scatter(made.Floats(), c.values(), step, out);
  });
  EXPECT_TRUE(states.OthersUntouched(bytes));
  return out;
}

Doubles ExpectedOfSpace(const SpaceCase& c, const Floats& rows, const SpaceWeights& w) {
  Doubles expected(static_cast<size_t>(AllRows() * c.values()));
  for (int64_t s = 0; s < kSequences; ++s) {
    for (int64_t h = 0; h < c.value_heads; ++h) {
      const auto i = static_cast<size_t>(h);
      const int64_t key_at = (c.first + h) / c.heads_per_key * c.key_dim;
      const auto column = [&](int64_t first, int64_t count) { return Columns(rows, c.width(), s, first, count); };
      const Doubles out = reference::StateSpace(column(key_at, c.key_dim), column(c.keys() + key_at, c.key_dim),
                                                column(2 * c.keys() + h * c.value_dim, c.value_dim),
                                                column(2 * c.keys() + c.values() + h, 1), w.rate[i], w.bias[i],
                                                w.skip[i], c.key_dim, c.value_dim);
      for (int64_t at = 0; at < std::ssize(out); ++at) {
        const int64_t row = FirstRow(s) + at / c.value_dim;
        expected[static_cast<size_t>(row * c.values() + h * c.value_dim + at % c.value_dim)] =
            out[static_cast<size_t>(at)];
      }
    }
  }
  return expected;
}

template <class Device>
class StateSpaceTest : public OpTest<Device> {};
TYPED_TEST_SUITE(StateSpaceTest, Devices, DeviceName);

TYPED_TEST(StateSpaceTest, StateSpace_EqualsReference_HoweverSequencesAreCutIntoSteps) {
  this->ForEachType([&](NumberType dtype, double tolerance) {
    for (const SpaceCase& c :
         {SpaceCase{1, 0, 1, 1, 1}, {3, 2, 5, 12, 10}, {7, 0, 3, 16, 33}, {4, 3, 1, 9, 64}, {2, 0, 2, 128, 150}}) {
      SCOPED_TRACE(testing::Message() << LayoutOf(dtype).name << ", " << c.value_dim << " columns");
      Random random(static_cast<uint64_t>(c.value_dim));
      const Floats rows = InType(dtype, RandomFloats(AllRows() * c.width(), random, 1)).Floats();
      SpaceWeights w = {RandomFloats(c.value_heads, random, 0.4f), RandomFloats(c.value_heads, random, 1),
                        RandomFloats(c.value_heads, random, 2)};
      for (float& r : w.rate) r = std::abs(r);
      const auto scanned = [&](Cut cut, int64_t block_bytes) {
        return Scan(this->device_.stream, dtype, c, rows, w, cut, block_bytes);
      };
      const Floats whole = scanned(Cut::kWhole, 1 << 20);
      ExpectNear(whole, ExpectedOfSpace(c, rows, w), tolerance + 2e-6, "out");
      EXPECT_EQ(scanned(Cut::kSteps, 1 << 20), whole) << "in steps";
      EXPECT_EQ(scanned(Cut::kSteps, 33 * kOddBlock<TypeParam>), whole) << "in small blocks";
      if (!std::is_same_v<TypeParam, test_case::Cuda>) {
        EXPECT_EQ(scanned(Cut::kDrafts, 33 * kOddBlock<TypeParam>), whole) << "held";
      }
    }
  });
}

template <class Device>
class GateSquaresTest : public OpTest<Device> {};
TYPED_TEST_SUITE(GateSquaresTest, Devices, DeviceName);

TYPED_TEST(GateSquaresTest, GateSquares_GiveTheNormOfEachGroup_WhenSummedOverAllRanks) {
  this->ForEachType([&](NumberType dtype, double tolerance) {
    const int64_t tokens = 5, group_size = 21, groups = 3, all = group_size * groups, stride = 70;
    Random random(8);
    const Numbers rows = Numbers::Of(dtype, tokens * all, random, 3),
                  gates = Numbers::Of(dtype, tokens * stride, random, 30);
    const Floats factors = RandomFloats(all, random, 1);
    Doubles expected;
    for (int64_t i = 0; i < tokens * all; i += group_size) {
      Doubles gated;
      for (int64_t at = i; at < i + group_size; ++at)
        gated.push_back(rows[at] * reference::Activate(gates[at / all * stride + at % all], Activation::kSilu));
      const auto first = factors.begin() + i % all;
      const Doubles normed = reference::RmsNorm(gated, {first, first + group_size}, 1e-5);
      expected.insert(expected.end(), normed.begin(), normed.end());
    }
    // The ends of the columns of four ranks. The first rank has a part of a group; the second has the other columns of
    // that group and most of the next groups; the third has no columns; the fourth has all that remain.
    const int64_t ends[] = {0, 10, 50, 50, all};
    std::vector<Numbers> parts;
    const DeviceBuffer<float> squares(tokens * groups);
    for (size_t rank = 0; rank + 1 < std::size(ends); ++rank) {
      const int64_t columns = ends[rank + 1] - ends[rank];
      Doubles mine;
      for (int64_t i = 0; i < tokens * columns; ++i) mine.push_back(rows[i / columns * all + ends[rank] + i % columns]);
      parts.push_back(Numbers::Of(dtype, mine));
      const DeviceBuffer<float> sums(tokens * groups, NAN);
      GateSquares(this->device_.stream, {.dtype = dtype,
                                         .rows = parts.back().data(),
                                         .gates = At(gates, ends[rank]),
                                         .num_tokens = tokens,
                                         .columns = columns,
                                         .gate_stride = stride,
                                         .first = ends[rank],
                                         .group_size = group_size,
                                         .num_groups = groups,
                                         .squares = sums.data()});
      for (int64_t i = 0; i < tokens * groups; ++i) squares[i] += sums[i];
    }
    Floats normed(static_cast<size_t>(rows.count));
    for (size_t rank = 0; rank < parts.size(); ++rank) {
      const int64_t columns = ends[rank + 1] - ends[rank];
      const DeviceBuffer<float> weight(Floats(factors.begin() + ends[rank], factors.begin() + ends[rank + 1]));
      WideNorm(this->device_.stream, {dtype, parts[rank].data(), weight.data(), squares.data(), tokens, columns,
                                      columns, groups, group_size, 1e-5f, ends[rank]});
      for (int64_t i = 0; i < parts[rank].count; ++i)
        normed[static_cast<size_t>(i / columns * all + ends[rank] + i % columns)] = static_cast<float>(parts[rank][i]);
    }
    // The gated numbers have already been rounded, so the errors add up.
    ExpectNear(normed, expected, 3 * tolerance, "normed");
  });
}

TEST(GateSquaresOnCpuTest, GateSquares_LeaveTheRowsUnchanged_WithoutGates) {
  const int64_t tokens = 3, group_size = 21, groups = 2, columns = group_size * groups;
  Random random(4);
  const Floats before = RandomFloats(tokens * columns, random, 1);
  Floats rows = before, squares(static_cast<size_t>(tokens * groups), NAN);
  GateSquares(CpuStream(2), {.dtype = NumberType::kF32,
                             .rows = rows.data(),
                             .gates = nullptr,
                             .num_tokens = tokens,
                             .columns = columns,
                             .gate_stride = columns,
                             .first = 0,
                             .group_size = group_size,
                             .num_groups = groups,
                             .squares = squares.data()});
  EXPECT_EQ(rows, before);
  Doubles expected(squares.size());
  for (size_t i = 0; i < before.size(); ++i)
    expected[i / static_cast<size_t>(group_size)] += double{before[i]} * before[i];
  ExpectNear(squares, expected, 1e-5, "squares");
}

template <class Device>
class GatedNormTest : public OpTest<Device> {};
TYPED_TEST_SUITE(GatedNormTest, Devices, DeviceName);

TYPED_TEST(GatedNormTest, GatedNorm_NormsHeadsAndMultipliesThemByTheirGates) {
  this->ForEachType([&](NumberType dtype, double tolerance) {
    const int64_t tokens = 5, heads = 11, dim = 43, stride = 500;
    Random random(2);
    const Numbers rows = Numbers::Of(dtype, tokens * heads * dim, random, 3),
                  gates = Numbers::Of(dtype, tokens * stride, random, 30);
    const Floats factors = RandomFloats(dim, random, 1);
    const DeviceBuffer<float> weight(factors);
    Doubles expected;
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t h = 0; h < heads; ++h) {
        const Doubles normed =
            reference::RmsNorm(rows.Slice((t * heads + h) * dim, dim), {factors.begin(), factors.end()}, 1e-5);
        for (int64_t i = 0; i < dim; ++i)
          expected.push_back(normed[static_cast<size_t>(i)] *
                             reference::Activate(gates[t * stride + h * dim + i], Activation::kSilu));
      }
    }
    GatedNorm(this->device_.stream,
              {dtype, rows.data(), gates.data(), weight.data(), tokens, heads, dim, stride, 1e-5f});
    ExpectNear(rows.Floats(), expected, tolerance, "normed");
  });
}

template <class Device>
class SigmoidGateTest : public OpTest<Device> {};
TYPED_TEST_SUITE(SigmoidGateTest, Devices, DeviceName);

TYPED_TEST(SigmoidGateTest, SigmoidGate_MultipliesRowsByTheirGates) {
  this->ForEachTypeAndSize([&](NumberType dtype, double tolerance, int64_t columns) {
    const int64_t tokens = 4, stride = columns + 16;
    Random random(4);
    const Numbers rows = Numbers::Of(dtype, tokens * columns, random, 3),
                  gates = Numbers::Of(dtype, tokens * stride, random, 60);
    Doubles expected;
    for (int64_t i = 0; i < rows.count; ++i)
      expected.push_back(rows[i] / (1 + std::exp(-gates[i / columns * stride + i % columns])));
    SigmoidGate(this->device_.stream, {dtype, rows.data(), gates.data(), tokens, columns, stride});
    ExpectNear(rows.Floats(), expected, tolerance, "gated");
  });
}

TYPED_TEST(SigmoidGateTest, SigmoidGate_MultipliesWholeHeads_WithOneGateForEach) {
  this->ForEachTypeAndSize([&](NumberType dtype, double tolerance, int64_t dim) {
    const int64_t tokens = 4, heads = 3, stride = heads + 8;
    Random random(5);
    const Numbers rows = Numbers::Of(dtype, tokens * heads * dim, random, 3),
                  gates = Numbers::Of(dtype, tokens * stride, random, 60);
    Doubles expected;
    for (int64_t i = 0; i < rows.count; ++i)
      expected.push_back(rows[i] / (1 + std::exp(-gates[i / (heads * dim) * stride + i / dim % heads])));
    SigmoidGate(this->device_.stream, {dtype, rows.data(), gates.data(), tokens, heads * dim, stride, dim});
    ExpectNear(rows.Floats(), expected, tolerance, "gated");
  });
}

// Only the CPU has heads that are no multiples of 16 bytes.
TEST(SigmoidGateOfHeadsTest, SigmoidGate_MultipliesHeadsOfAnySize_WithOneGateForEach) {
  Random random(5);
  const CpuStream stream(2);
  for (const int64_t dim : {1, 5, 16, 40}) {
    const int64_t tokens = 3, heads = 3, columns = heads * dim, stride = heads + 7;
    std::vector<float> rows(static_cast<size_t>(tokens * columns)), gates(static_cast<size_t>(tokens * stride));
    for (float& number : rows) number = static_cast<float>(random.Between(-100, 100)) / 16;
    for (float& number : gates) number = static_cast<float>(random.Between(-100, 100)) / 16;
    const std::vector<float> before = rows;
    SigmoidGate(stream, {NumberType::kF32, rows.data(), gates.data(), tokens, columns, stride, dim});
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t i = 0; i < columns; ++i) {
        const auto at = static_cast<size_t>(t * columns + i);
        const double gate = gates[static_cast<size_t>(t * stride + i / dim)];
        EXPECT_NEAR(rows[at], before[at] / (1 + std::exp(-gate)), 2e-6) << dim << " " << t << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace quire::kernels

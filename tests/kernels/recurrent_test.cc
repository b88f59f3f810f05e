// Ops of layers that keep a state, whose sequences are cut into steps in many ways.
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
#include "tests/kernels/reference.h"
#include "tests/support/expect_near.h"
#include "tests/support/random.h"

namespace quire::kernels {
namespace {

using test::ExpectNear;
using test::Random;
using Floats = std::vector<float>;
using Doubles = std::vector<double>;

constexpr int64_t kLengths[] = {1, 23, 5, 12};
constexpr int64_t kSequences = std::size(kLengths);

Floats RandomFloats(int64_t count, Random& random, float size) {
  Floats numbers(static_cast<size_t>(count));
  for (float& x : numbers) x = (static_cast<float>(random.Below(2'000'001)) / 1e6f - 1) * size;
  return numbers;
}

/// Rows of all sequences, one sequence after another: [tokens, width].
int64_t FirstRow(int64_t sequence) { return std::accumulate(kLengths, kLengths + sequence, int64_t{0}); }
int64_t AllRows() { return FirstRow(kSequences); }

/// Columns [first, first + count) of a sequence's rows.
Doubles Columns(const Floats& rows, int64_t width, int64_t sequence, int64_t first, int64_t count) {
  Doubles out;
  for (int64_t t = FirstRow(sequence); t < FirstRow(sequence) + kLengths[sequence]; ++t) {
    for (int64_t i = first; i < first + count; ++i) out.push_back(rows[static_cast<size_t>(t * width + i)]);
  }
  return out;
}

/// States in blocks that are scattered over a pool of NaN.
class States {
 public:
  States(int64_t bytes, int64_t offset, int64_t block_bytes)
      : offset_(offset), block_bytes_(block_bytes), per_state_((offset + bytes + block_bytes - 1) / block_bytes) {
    const int64_t blocks = kSequences * per_state_;
    pool_.assign(static_cast<size_t>((blocks + 1) * block_bytes), std::byte{0xff});
    for (int64_t i = 0; i < blocks; ++i) blocks_.push_back(static_cast<int32_t>(1 + i * 7 % blocks));
    if (blocks % 7 == 0) std::iota(blocks_.rbegin(), blocks_.rend(), 1);
  }

  StateView View(const std::vector<int64_t>& members, const std::vector<int64_t>& counts,
                 const std::vector<int64_t>& done) {
    step_blocks_.clear(), query_start_.assign(1, 0), context_len_.clear();
    for (const int64_t s : members) {
      const auto first = blocks_.begin() + s * per_state_;
      step_blocks_.insert(step_blocks_.end(), first, first + per_state_);
      query_start_.push_back(query_start_.back() + static_cast<int32_t>(counts[static_cast<size_t>(s)]));
      context_len_.push_back(static_cast<int32_t>(done[static_cast<size_t>(s)] + counts[static_cast<size_t>(s)]));
    }
    return {pool_.data(), block_bytes_,        step_blocks_.data(), per_state_,
            offset_,      query_start_.data(), context_len_.data(), std::ssize(members)};
  }

  /// True where only bytes [offset, offset + bytes) of every state were written.
  bool OthersUntouched(int64_t bytes) const {
    for (int64_t s = 0; s < kSequences; ++s) {
      for (int64_t at = 0; at < per_state_ * block_bytes_; ++at) {
        if (at >= offset_ && at < offset_ + bytes) continue;
        const int64_t block = blocks_[static_cast<size_t>(s * per_state_ + at / block_bytes_)];
        if (pool_[static_cast<size_t>(block * block_bytes_ + at % block_bytes_)] != std::byte{0xff}) return false;
      }
    }
    return std::all_of(pool_.begin(), pool_.begin() + block_bytes_, [](std::byte b) { return b == std::byte{0xff}; });
  }

 private:
  int64_t offset_, block_bytes_, per_state_;
  std::vector<std::byte> pool_;
  std::vector<int32_t> blocks_, step_blocks_, query_start_, context_len_;
};

/// Calls run(rows of the step's tokens among all, its states) until all sequences are computed, each step with some of
/// the next tokens of some of them. With `whole` there is one step.
template <class Run>
void InSteps(States& states, bool whole, Random& random, const Run& run) {
  std::vector<int64_t> done(kSequences);
  while (done != std::vector<int64_t>(std::begin(kLengths), std::end(kLengths))) {
    std::vector<int64_t> members, counts(kSequences), rows;
    for (int64_t s = 0; s < kSequences; ++s) {
      const auto i = static_cast<size_t>(s);
      const int64_t left = kLengths[s] - done[i];
      counts[i] = whole ? left : std::min(left, static_cast<int64_t>(random.Below(5)));
      if (counts[i] > 0) members.push_back(s);
      for (int64_t t = 0; t < counts[i]; ++t) rows.push_back(FirstRow(s) + done[i] + t);
    }
    run(rows, states.View(members, counts, done));
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

struct ConvCase {
  int64_t channels, taps;
  bool gated, silu;
};

/// The outputs of all sequences, and that no byte beside their states changed.
Floats Convolve(const ConvCase& c, const Floats& rows, const Floats& weight, const Floats& bias, bool whole,
                int64_t block_bytes) {
  const int64_t bytes = CausalConvStateBytes(c.channels, c.taps), width = 3 * c.channels;
  States states(bytes, 24, block_bytes);
  Random random(3);
  Floats out(static_cast<size_t>(AllRows() * c.channels));
  CpuStream stream(2);
  InSteps(states, whole, random, [&](const std::vector<int64_t>& step, const StateView& view) {
    const Floats in = Gather(rows, width, step);
    Floats made(step.size() * static_cast<size_t>(c.channels));
    CausalConv(stream, {.dtype = NumberType::kF32,
                        .x = in.data() + 2 * c.channels,
                        .in_gate = c.gated ? in.data() : nullptr,
                        .out_gate = c.gated ? in.data() + c.channels : nullptr,
                        .x_stride = width,
                        .out = made.data(),
                        .out_stride = c.channels,
                        .weight = weight.data(),
                        .bias = bias.empty() ? nullptr : bias.data(),
                        .channels = c.channels,
                        .taps = c.taps,
                        .silu = c.silu,
                        .state = view});
    Scatter(made, c.channels, step, out);
  });
  EXPECT_TRUE(states.OthersUntouched(bytes));
  return out;
}

TEST(CausalConvTest, EqualsReferenceHoweverSequencesAreCut) {
  for (const ConvCase& c :
       {ConvCase{1, 2, false, false}, {33, 3, true, false}, {40, 4, false, true}, {7, 8, true, true}}) {
    SCOPED_TRACE(c.channels);
    Random random(static_cast<uint64_t>(c.channels));
    const int64_t width = 3 * c.channels;
    const Floats rows = RandomFloats(AllRows() * width, random, 2),
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
    const Floats whole = Convolve(c, rows, weight, bias, true, 1 << 20);
    ExpectNear(whole, expected, 3e-6, "convolved");
    EXPECT_EQ(Convolve(c, rows, weight, bias, false, 1 << 20), whole) << "in steps";
    EXPECT_EQ(Convolve(c, rows, weight, bias, false, 30), whole) << "in blocks that cut numbers";
  }
}

TEST(CausalConvTest, WorksInPlace) {
  const int64_t channels = 20, taps = 4;
  Random random(1);
  Floats rows = RandomFloats(AllRows() * channels, random, 2);
  const Floats weight = RandomFloats(taps * channels, random, 1);
  Floats out(rows.size());
  for (float* to : {out.data(), rows.data()}) {
    States states(CausalConvStateBytes(channels, taps), 0, 64);
    InSteps(states, true, random, [&](const std::vector<int64_t>&, const StateView& view) {
      CausalConv(CpuStream(1), {NumberType::kF32, rows.data(), nullptr, nullptr, channels, to, channels, weight.data(),
                                nullptr, channels, taps, true, view});
    });
  }
  EXPECT_EQ(rows, out);
}

struct DeltaCase {
  int64_t key_heads, value_heads, key_dim, value_dim;

  int64_t keys() const { return key_heads * key_dim; }
  int64_t values() const { return value_heads * value_dim; }
  int64_t width() const { return 2 * keys() + values() + 2 * value_heads; }
};

Floats Recur(const DeltaCase& c, const Floats& rows, const Floats& rate, const Floats& bias, bool whole,
             int64_t block_bytes) {
  const int64_t bytes = HeadStateBytes(c.value_heads, c.key_dim, c.value_dim);
  States states(bytes, 12, block_bytes);
  Random random(5);
  Floats out(static_cast<size_t>(AllRows() * c.values()));
  CpuStream stream(2);
  InSteps(states, whole, random, [&](const std::vector<int64_t>& step, const StateView& view) {
    Floats in = Gather(rows, c.width(), step), made(step.size() * static_cast<size_t>(c.values()));
    float* values = in.data() + 2 * c.keys();
    GatedDelta(stream, {.dtype = NumberType::kF32,
                        .queries = in.data(),
                        .keys = in.data() + c.keys(),
                        .values = values,
                        .row_stride = c.width(),
                        .betas = values + c.values(),
                        .decays = values + c.values() + c.value_heads,
                        .gate_stride = c.width(),
                        .rate = rate.data(),
                        .bias = bias.data(),
                        .out = made.data(),
                        .key_heads = c.key_heads,
                        .value_heads = c.value_heads,
                        .key_dim = c.key_dim,
                        .value_dim = c.value_dim,
                        .state = view});
    Scatter(made, c.values(), step, out);
  });
  EXPECT_TRUE(states.OthersUntouched(bytes));
  return out;
}

TEST(GatedDeltaTest, EqualsReferenceHoweverSequencesAreCut) {
  for (const DeltaCase& c : {DeltaCase{1, 1, 1, 1}, {2, 6, 12, 10}, {3, 3, 16, 33}, {1, 2, 128, 70}}) {
    SCOPED_TRACE(c.value_dim);
    Random random(static_cast<uint64_t>(c.value_dim));
    const Floats rows = RandomFloats(AllRows() * c.width(), random, 2);
    Floats rate = RandomFloats(c.value_heads, random, 0.4f), bias = RandomFloats(c.value_heads, random, 1);
    for (float& r : rate) r = std::abs(r);
    bias[0] = 25;  // where softplus is the number itself
    Doubles expected(static_cast<size_t>(AllRows() * c.values()));
    for (int64_t s = 0; s < kSequences; ++s) {
      for (int64_t h = 0; h < c.value_heads; ++h) {
        const int64_t key_head = h / (c.value_heads / c.key_heads), gates = 2 * c.keys() + c.values();
        const auto column = [&](int64_t first, int64_t count) { return Columns(rows, c.width(), s, first, count); };
        const Doubles out = reference::GatedDelta(
            column(key_head * c.key_dim, c.key_dim), column(c.keys() + key_head * c.key_dim, c.key_dim),
            column(2 * c.keys() + h * c.value_dim, c.value_dim), column(gates + h, 1),
            column(gates + c.value_heads + h, 1), rate[static_cast<size_t>(h)], bias[static_cast<size_t>(h)], c.key_dim,
            c.value_dim);
        for (int64_t i = 0; i < std::ssize(out); ++i) {
          const int64_t row = FirstRow(s) + i / c.value_dim;
          expected[static_cast<size_t>(row * c.values() + h * c.value_dim + i % c.value_dim)] =
              out[static_cast<size_t>(i)];
        }
      }
    }
    const Floats whole = Recur(c, rows, rate, bias, true, 1 << 20);
    ExpectNear(whole, expected, 4e-6, "out");
    EXPECT_EQ(Recur(c, rows, rate, bias, false, 1 << 20), whole) << "in steps";
    EXPECT_EQ(Recur(c, rows, rate, bias, false, 999), whole) << "in blocks that cut numbers";
  }
}

/// Value heads [first, first + value_heads) of those of all key heads.
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

Floats Scan(const SpaceCase& c, const Floats& rows, const SpaceWeights& w, bool whole, int64_t block_bytes) {
  const int64_t bytes = HeadStateBytes(c.value_heads, c.key_dim, c.value_dim);
  States states(bytes, 20, block_bytes);
  Random random(6);
  Floats out(static_cast<size_t>(AllRows() * c.values()));
  CpuStream stream(2);
  InSteps(states, whole, random, [&](const std::vector<int64_t>& step, const StateView& view) {
    Floats in = Gather(rows, c.width(), step), made(step.size() * static_cast<size_t>(c.values()));
    StateSpace(stream, {.dtype = NumberType::kF32,
                        .queries = in.data(),
                        .keys = in.data() + c.keys(),
                        .values = in.data() + 2 * c.keys(),
                        .row_stride = c.width(),
                        .steps = in.data() + 2 * c.keys() + c.values(),
                        .rate = w.rate.data(),
                        .bias = w.bias.data(),
                        .skip = w.skip.data(),
                        .out = made.data(),
                        .value_heads = c.value_heads,
                        .heads_per_key = c.heads_per_key,
                        .first_head = c.first,
                        .key_dim = c.key_dim,
                        .value_dim = c.value_dim,
                        .state = view});
    Scatter(made, c.values(), step, out);
  });
  EXPECT_TRUE(states.OthersUntouched(bytes));
  return out;
}

TEST(StateSpaceTest, EqualsReferenceHoweverSequencesAreCut) {
  for (const SpaceCase& c :
       {SpaceCase{1, 0, 1, 1, 1}, {3, 2, 5, 12, 10}, {7, 0, 3, 16, 33}, {4, 3, 1, 9, 64}, {2, 0, 4, 128, 70}}) {
    SCOPED_TRACE(c.value_dim);
    Random random(static_cast<uint64_t>(c.value_dim));
    const Floats rows = RandomFloats(AllRows() * c.width(), random, 1);
    SpaceWeights w = {RandomFloats(c.value_heads, random, 0.4f), RandomFloats(c.value_heads, random, 1),
                      RandomFloats(c.value_heads, random, 2)};
    for (float& r : w.rate) r = std::abs(r);
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
    const Floats whole = Scan(c, rows, w, true, 1 << 20);
    ExpectNear(whole, expected, 4e-6, "out");
    EXPECT_EQ(Scan(c, rows, w, false, 1 << 20), whole) << "in steps";
    EXPECT_EQ(Scan(c, rows, w, false, 999), whole) << "in blocks that cut numbers";
  }
}

TEST(GateSquaresTest, PartsOfRanksMakeANormOverGroups) {
  const int64_t tokens = 5, group_size = 21, groups = 3, all = group_size * groups, stride = 70;
  Random random(8);
  const Floats rows = RandomFloats(tokens * all, random, 3), gates = RandomFloats(tokens * stride, random, 30),
               weight = RandomFloats(all, random, 1);
  Doubles expected;
  for (int64_t i = 0; i < tokens * all; i += group_size) {
    Doubles gated;
    for (int64_t at = i; at < i + group_size; ++at) {
      const double gate = gates[static_cast<size_t>(at / all * stride + at % all)];
      gated.push_back(rows[static_cast<size_t>(at)] * reference::Activate(gate, Activation::kSilu));
    }
    const auto first = weight.begin() + i % all;
    const Doubles normed = reference::RmsNorm(gated, {first, first + group_size}, 1e-5);
    expected.insert(expected.end(), normed.begin(), normed.end());
  }
  // Ranks with a part of a group, with all of one and parts of two, with nothing, and with the rest.
  const int64_t ends[] = {0, 10, 50, 50, all};
  std::vector<Floats> parts;
  Floats squares(static_cast<size_t>(tokens * groups));
  const auto params = [&](size_t rank, Floats& part) {
    return GateSquaresParams{.dtype = NumberType::kF32,
                             .rows = part.data(),
                             .gates = gates.data() + ends[rank],
                             .num_tokens = tokens,
                             .columns = ends[rank + 1] - ends[rank],
                             .gate_stride = stride,
                             .first = ends[rank],
                             .group_size = group_size,
                             .num_groups = groups};
  };
  for (size_t rank = 0; rank + 1 < std::size(ends); ++rank) {
    Floats part, sums(squares.size(), NAN);
    for (int64_t t = 0; t < tokens; ++t)
      part.insert(part.end(), rows.begin() + t * all + ends[rank], rows.begin() + t * all + ends[rank + 1]);
    GateSquaresParams p = params(rank, part);
    p.squares = sums.data();
    GateSquares(CpuStream(2), p);
    for (size_t i = 0; i < sums.size(); ++i) squares[i] += sums[i];
    parts.push_back(part);
  }
  Floats normed(rows.size());
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    const GateSquaresParams p = params(rank, parts[rank]);
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t begin = p.begin(g), count = p.begin(g + 1) - begin;
      WideNorm(CpuStream(2), {parts[rank].data() + begin, weight.data() + ends[rank] + begin, squares.data() + g,
                              tokens, count, p.columns, groups, group_size, 1e-5f});
    }
    for (int64_t i = 0; i < tokens * p.columns; ++i)
      normed[static_cast<size_t>(i / p.columns * all + ends[rank] + i % p.columns)] =
          parts[rank][static_cast<size_t>(i)];
  }
  ExpectNear(normed, expected, 3e-6, "normed");
}

TEST(GatedNormTest, NormsHeadsAndMultipliesByTheirGates) {
  const int64_t tokens = 5, heads = 3, dim = 11, stride = 40;
  Random random(2);
  Floats rows = RandomFloats(tokens * heads * dim, random, 3);
  const Floats gates = RandomFloats(tokens * stride, random, 30), weight = RandomFloats(dim, random, 1);
  Doubles expected;
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t h = 0; h < heads; ++h) {
      const auto begin = rows.begin() + (t * heads + h) * dim;
      const Doubles normed = reference::RmsNorm({begin, begin + dim}, {weight.begin(), weight.end()}, 1e-5);
      for (int64_t i = 0; i < dim; ++i) {
        const double gate = gates[static_cast<size_t>(t * stride + h * dim + i)];
        expected.push_back(normed[static_cast<size_t>(i)] * reference::Activate(gate, Activation::kSilu));
      }
    }
  }
  GatedNorm(CpuStream(2),
            {NumberType::kF32, rows.data(), gates.data(), weight.data(), tokens, heads, dim, stride, 1e-5f});
  ExpectNear(rows, expected, 2e-6, "normed");
}

TEST(SigmoidGateTest, MultipliesRowsByTheirGates) {
  const int64_t tokens = 4, columns = 27, stride = 60;
  Random random(4);
  Floats rows = RandomFloats(tokens * columns, random, 3);
  const Floats gates = RandomFloats(tokens * stride, random, 60);
  Doubles expected;
  for (int64_t i = 0; i < tokens * columns; ++i) {
    const double gate = gates[static_cast<size_t>(i / columns * stride + i % columns)];
    expected.push_back(rows[static_cast<size_t>(i)] / (1 + std::exp(-gate)));
  }
  SigmoidGate(CpuStream(2), {NumberType::kF32, rows.data(), gates.data(), tokens, columns, stride});
  ExpectNear(rows, expected, 2e-6, "gated");
}

}  // namespace
}  // namespace quire::kernels

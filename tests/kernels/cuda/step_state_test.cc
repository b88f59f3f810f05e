// Tests, in the emulator, the operations that update the state of running sequences on the GPU.
#include "kernels/cuda/elementwise/step_state.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "simt/device_buffer.h"
#include "simt/expect_error.h"
#include "tests/support/random.h"

namespace quire::kernels {
namespace {

using simt::DeviceBuffer;

template <class T>
std::vector<T> Values(const DeviceBuffer<T>& buffer) {
  return {buffer.data(), buffer.data() + buffer.size()};
}

TEST(ScatterTableTest, ScatterTable_WritesItsEntries_AndNothingElse) {
  for (const int64_t count : {0, 1, 300}) {
    test::Random random(static_cast<uint64_t>(count));
    const int64_t rows = 41, stride = 12;
    const DeviceBuffer<int32_t> table(rows * stride, -5);
    std::vector<int32_t> expected = Values(table);
    std::vector<TableEntry> entries;
    for (int64_t i = 0; i < count; ++i) {
      const auto place = static_cast<int32_t>(i * (rows * stride - 1) / 300);
      const auto block = static_cast<int32_t>(random.Below(1 << 30));
      if (random.Below(5) == 0) {
        entries.push_back({-1, 1 << 30, 7});
        continue;
      }
      entries.push_back({static_cast<int32_t>(place / stride), static_cast<int32_t>(place % stride), block});
      expected[static_cast<size_t>(place)] = block;
    }
    const DeviceBuffer<TableEntry> device(entries);
    ScatterTable({}, {device.data(), count, table.data(), stride});
    EXPECT_EQ(Values(table), expected);
  }
}

TEST(ScatterTableTest, Emulator_FindsAnEntryOutsideTheTable) {
  const DeviceBuffer<TableEntry> entries(std::vector<TableEntry>{{4, 0, 1}});
  const DeviceBuffer<int32_t> table(4 * 8);
  simt::ExpectError([&] { ScatterTable({}, {entries.data(), 1, table.data(), 8}); }, "global access out of bounds");
}

TEST(GatherRowsTest, GatherRows_CopiesTheRows_ForWhichTokensAreSampled) {
  const int64_t row_bytes = 4096 + 32;
  DeviceBuffer<std::byte> in(5 * row_bytes);
  const DeviceBuffer<std::byte> out(4 * row_bytes, std::byte{0x7e});
  test::Random random(3);
  for (int64_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::byte>(random.Bits());
  const DeviceBuffer<int32_t> row_ids(std::vector<int32_t>{4, 0, -1, 4});
  GatherRows({}, {in.data(), row_ids.data(), 4, row_bytes, out.data()});
  for (int64_t r = 0; r < 4; ++r) {
    for (int64_t i = 0; i < row_bytes; ++i) {
      const std::byte expected = row_ids[r] < 0 ? std::byte{0x7e} : in[row_ids[r] * row_bytes + i];
      ASSERT_EQ(out[r * row_bytes + i], expected) << "row " << r;
    }
  }
}

TEST(FeedTokensTest, FeedTokens_TakesTokensOfTheStepBefore_FromTheDevice) {
  const int64_t tokens = 131;
  const DeviceBuffer<int32_t> last_token(std::vector<int32_t>{70, 71, 72});
  const DeviceBuffer<int32_t> from_slot(tokens, -1), token_ids(tokens);
  std::vector<int32_t> expected;
  for (int32_t t = 0; t < tokens; ++t) {
    token_ids[t] = t;
    if (t % 5 == 2) from_slot[t] = t % 3;
    expected.push_back(t % 5 == 2 ? 70 + t % 3 : t);
  }
  FeedTokens({}, {from_slot.data(), last_token.data(), token_ids.data(), tokens});
  EXPECT_EQ(Values(token_ids), expected);
}

/// Returns the counts that a row of the table should hold.
std::vector<uint16_t> Counts(const std::vector<int32_t>& tokens, size_t prompt, int32_t first_id, int64_t vocab) {
  std::vector<uint16_t> counts(static_cast<size_t>(vocab));
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < first_id || tokens[i] >= first_id + vocab) continue;
    uint16_t& count = counts[static_cast<size_t>(tokens[i] - first_id)];
    if (i < prompt) count |= 0x8000;
    if (i >= prompt && (count & 0x7fff) < 0x7fff) ++count;
  }
  return counts;
}

TEST(CountsTest, FillCountsAndKeepTokens_CountPromptAndGeneratedTokens) {
  for (const int64_t vocab : {0, 3, 777}) {
    test::Random random(static_cast<uint64_t>(vocab));
    const int32_t first_id = 100;
    const int64_t stride = vocab + 1, slots = 4;
    const DeviceBuffer<uint16_t> counts(slots * stride, uint16_t{0xabcd});
    const CountTable table{counts.data(), stride, vocab, first_id};
    std::vector<int32_t> tokens(7, -1);  // tokens of no sequence
    std::map<int32_t, std::pair<std::vector<int32_t>, size_t>> of_slot;
    std::vector<CountedSequence> sequences;
    for (const auto& [slot, prompt, generated] : {std::tuple(2, 300, 40), std::tuple(0, 1, 0), std::tuple(3, 0, 900)}) {
      const auto begin = static_cast<int32_t>(tokens.size());
      for (int i = 0; i < prompt + generated; ++i) tokens.push_back(static_cast<int32_t>(random.Below(1000)));
      sequences.push_back({slot, begin, begin + prompt, begin + prompt + generated});
      of_slot[slot] = {{tokens.begin() + begin, tokens.end()}, static_cast<size_t>(prompt)};
    }
    sequences.insert(sequences.begin() + 1, {-1, 1 << 30, 1 << 30, 1 << 30});
    const DeviceBuffer<CountedSequence> device_sequences(sequences);
    const DeviceBuffer<int32_t> device_tokens(tokens);
    FillCounts({}, {device_sequences.data(), device_sequences.size(), device_tokens.data(), table});

    // The rows: slot 2 counts; a row without counts; a padding row; a row that samples nothing; slot 3 counts; a row
    // whose sampled token is undecided.
    const std::vector<int32_t> count_slot{2, -1, 3, 0, 3, 2}, slot{5, 6, -1, 4, 0, 1};
    const DeviceBuffer<DeviceSampling> rows(6);
    const DeviceBuffer<DrawnToken> drawn(6);
    const DeviceBuffer<ShardDraw> draws(6, {DrawState::kInShard, 0, 0, 0});
    draws[5].state = DrawState::kWholeRow;
    const DeviceBuffer<int32_t> device_slot(slot), last_token(7, -9);
    for (int64_t r = 0; r < 6; ++r) {
      rows[r].draws = r == 3 ? 0 : 1;
      rows[r].count_slot = count_slot[static_cast<size_t>(r)];
      drawn[r].token = 101 + static_cast<int32_t>(r);
    }
    KeepTokens({}, {rows.data(), drawn.data(), draws.data(), device_slot.data(), 6, last_token.data(), table});
    of_slot[2].first.push_back(101);
    of_slot[3].first.push_back(105);
    EXPECT_EQ(Values(last_token), (std::vector<int32_t>{105, -9, -9, -9, -9, 101, 102}));
    for (int32_t s = 0; s < slots; ++s) {
      std::vector<uint16_t> expected(static_cast<size_t>(vocab), 0xabcd);
      if (of_slot.count(s)) expected = Counts(of_slot[s].first, of_slot[s].second, first_id, vocab);
      expected.push_back(0xabcd);
      const std::vector<uint16_t> got(counts.data() + s * stride, counts.data() + (s + 1) * stride);
      EXPECT_EQ(got, expected) << "slot " << s << ", vocabulary " << vocab;
    }
  }
}

TEST(CountsTest, KeepTokens_SaturatesCounts) {
  const DeviceBuffer<uint16_t> counts(std::vector<uint16_t>{0xfffe, 0x7fff});
  const CountTable table{counts.data(), 2, 2, 0};
  const DeviceBuffer<DeviceSampling> rows(1);
  const DeviceBuffer<DrawnToken> drawn(1);
  const DeviceBuffer<int32_t> slot(1), last_token(1);
  rows[0].draws = 1;
  for (const int32_t token : {0, 0, 1}) {
    drawn[0].token = token;
    KeepTokens({}, {rows.data(), drawn.data(), nullptr, slot.data(), 1, last_token.data(), table});
  }
  EXPECT_EQ(Values(counts), (std::vector<uint16_t>{0xffff, 0x7fff}));
}

TEST(StepStateTest, Functions_LaunchNoKernel_WhenThereIsNothingToDo) {
  ScatterTable({}, {nullptr, 0, nullptr, 8});
  GatherRows({}, {nullptr, nullptr, 0, 64, nullptr});
  FeedTokens({}, {nullptr, nullptr, nullptr, 0});
  KeepTokens({}, {nullptr, nullptr, nullptr, nullptr, 0, nullptr, {}});
  FillCounts({}, {nullptr, 0, nullptr, {}});
}

}  // namespace
}  // namespace quire::kernels

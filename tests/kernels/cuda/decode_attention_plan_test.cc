#include "kernels/cuda/decode/decode_attention_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <vector>

#include "tests/support/random.h"

namespace quire::kernels {
namespace {

using Batch = std::vector<int32_t>;

struct Planned {
  DecodeWorkSize size;
  DecodePlan plan;
  std::vector<DecodeItem> items;
  std::vector<DecodeMerge> merges;
  std::vector<int32_t> first_item;  // first item of every CTA, and the number of items
  std::vector<int64_t> load;        // units of every CTA

  int64_t Largest() const { return *std::max_element(load.begin(), load.end()); }
  int64_t Total() const { return std::accumulate(load.begin(), load.end(), int64_t{0}); }
};

int64_t UnitsOf(const DecodeItem& item) {
  return std::max((item.end + kDecodeUnit - 1) / kDecodeUnit - item.begin / kDecodeUnit, 1);
}

Planned Plan(const Batch& contexts, const std::vector<int32_t>& head_start, int32_t num_ctas, int32_t window = 0,
             int32_t min_units = kDecodeMinUnits) {
  Planned p;
  p.size = {num_ctas, static_cast<int32_t>(contexts.size()) * NumHeadTiles(head_start)};
  std::vector<int32_t> work(static_cast<size_t>(p.size.Words()), -77);
  p.plan = PlanDecode(p.size, contexts, head_start, window, work, min_units);
  const auto at = [&](int64_t i) { return work.begin() + i; };
  p.first_item.assign(at(p.size.FirstItemsAt()), at(p.size.FirstItemsAt() + num_ctas + 1));
  p.merges.resize(static_cast<size_t>(work[0]));
  EXPECT_LE(work[0], p.size.MaxMerges());
  EXPECT_LE(p.first_item.back(), p.size.MaxItems());
  p.items.resize(static_cast<size_t>(p.first_item.back()));
  std::memcpy(p.merges.data(), &work[static_cast<size_t>(p.size.MergesAt())], p.merges.size() * sizeof(DecodeMerge));
  std::memcpy(p.items.data(), &work[static_cast<size_t>(p.size.ItemsAt())], p.items.size() * sizeof(DecodeItem));
  EXPECT_EQ(p.plan.used_words, p.size.ItemsAt() + 8 * static_cast<int64_t>(p.items.size()));
  EXPECT_EQ(p.plan.combine, !p.merges.empty());
  EXPECT_EQ(p.first_item[0], 0);
  for (size_t c = 0; c < static_cast<size_t>(num_ctas); ++c) {
    EXPECT_LE(p.first_item[c], p.first_item[c + 1]);
    p.load.push_back(0);
    for (int32_t i = p.first_item[c]; i < p.first_item[c + 1]; ++i)
      p.load.back() += UnitsOf(p.items[static_cast<size_t>(i)]);
  }
  return p;
}

/// Expects that every visible position belongs to exactly one item per query head. Also expects that the slots for the
/// partial results of a split context are those that its merge reads, in order.
void ExpectCovers(const Planned& p, const Batch& contexts, const std::vector<int32_t>& head_start, int32_t window) {
  struct Parts {
    int32_t next, kv_head, num_heads;
    std::vector<int32_t> slots;
  };
  std::map<std::pair<int32_t, int32_t>, Parts> pairs;  // (sequence, first head)
  for (const DecodeItem& item : p.items) {
    const int32_t context = contexts[static_cast<size_t>(item.seq)];
    const int32_t first = window > 0 ? std::max(context - window, 0) : 0;
    auto& parts =
        pairs.try_emplace({item.seq, item.first_head}, Parts{first, item.kv_head, item.num_heads, {}}).first->second;
    EXPECT_EQ(item.begin, parts.next);
    EXPECT_TRUE(item.end == context || item.end % kDecodeUnit == 0);
    EXPECT_TRUE(item.end > item.begin || context == 0);
    EXPECT_EQ(item.context, context);
    EXPECT_EQ(item.num_heads, parts.num_heads);
    parts.next = item.end;
    if (item.slot >= 0) parts.slots.push_back(item.slot);
  }
  size_t expected = 0;
  for (size_t seq = 0; seq < contexts.size(); ++seq) {
    for (size_t g = 0; g + 1 < head_start.size(); ++g) {
      for (int32_t head = head_start[g]; head < head_start[g + 1]; head += kDecodeRows, ++expected) {
        const auto found = pairs.find({static_cast<int32_t>(seq), head});
        ASSERT_NE(found, pairs.end());
        EXPECT_EQ(found->second.next, contexts[seq]);
        EXPECT_EQ(found->second.kv_head, static_cast<int32_t>(g));
        EXPECT_EQ(found->second.num_heads, std::min(kDecodeRows, head_start[g + 1] - head));
      }
    }
  }
  EXPECT_EQ(pairs.size(), expected);
  int32_t next_slot = 0;
  size_t split = 0;
  for (const auto& [pair, parts] : pairs) split += !parts.slots.empty();
  EXPECT_EQ(p.merges.size(), split);
  for (const DecodeMerge& merge : p.merges) {
    EXPECT_EQ(merge.first_slot, next_slot);
    const Parts& parts = pairs.at({merge.seq, merge.first_head});
    EXPECT_EQ(parts.num_heads, merge.num_heads);
    EXPECT_EQ(static_cast<int32_t>(parts.slots.size()), merge.num_slots);
    EXPECT_GE(merge.num_slots, 2);
    for (const int32_t slot : parts.slots) EXPECT_EQ(slot, next_slot++);
  }
  EXPECT_LE(next_slot, p.size.MaxSlots());
}

TEST(DecodePlanTest, PlanDecode_CoversEveryPositionOnceAndEvenly_InRandomBatches) {
  test::Random random(1);
  for (int round = 0; round < 3000; ++round) {
    Batch contexts(static_cast<size_t>(random.Between(1, 40)));
    const int64_t longest = int64_t{1} << random.Between(0, 15);
    for (int32_t& context : contexts) {
      context = static_cast<int32_t>(random.Below(4) == 0 ? longest : random.Below(longest + 1));
    }
    std::vector<int32_t> head_start{0};
    for (int64_t g = random.Between(1, 4); g > 0; --g) {
      head_start.push_back(head_start.back() + static_cast<int32_t>(random.Between(0, 40)));
    }
    const auto num_ctas = static_cast<int32_t>(random.Between(1, 300));
    const auto window = static_cast<int32_t>(random.Below(3) == 0 ? random.Between(1, 2000) : 0);
    const auto min_units = static_cast<int32_t>(random.Between(1, 8));
    const Planned p = Plan(contexts, head_start, num_ctas, window, min_units);
    ExpectCovers(p, contexts, head_start, window);
    const int64_t even = (p.Total() + num_ctas - 1) / num_ctas;
    EXPECT_LE(p.Largest(), even + even / 4 + 2 * min_units) << "round " << round << ", " << num_ctas << " CTAs";
    if (HasFailure()) break;
  }
}

TEST(DecodePlanTest, PlanDecode_SplitsNoContext_WhenThereAreManyContextsOrTheyAreShort) {
  const std::vector<int32_t> heads{0, 4, 8, 12, 16, 20, 24, 28, 32};
  for (const size_t sequences : {33u, 32u, 66u, 64u, 256u}) {  // each sequence has 8 head tiles, for 264 CTAs
    const Planned p = Plan(Batch(sequences, 4096), heads, 264);
    EXPECT_FALSE(p.plan.combine) << sequences;
    EXPECT_EQ(p.Largest(), 64 * ((static_cast<int64_t>(sequences) * 8 + 263) / 264));
  }
  EXPECT_FALSE(Plan({0, 0, 0}, heads, 264).plan.combine);
  EXPECT_FALSE(Plan({200, 100, 60}, heads, 264).plan.combine);  // too short to split
}

TEST(DecodePlanTest, PlanDecode_SplitsALongContext_OverAllCtas) {
  const std::vector<int32_t> heads{0, 4, 8, 12, 16, 20, 24, 28, 32};
  const Planned p = Plan({32768}, heads, 264);
  EXPECT_EQ(p.merges.size(), 8u);
  EXPECT_LE(p.Largest(), 19);  // 4096 units: 15.5 each
  Batch skewed(15, 4096);
  skewed.push_back(65536);
  const Planned q = Plan(skewed, heads, 264);
  EXPECT_LE(q.Largest(), 68);  // 15872 units, 60.1 for each CTA; a context of 4096 tokens has 64 units and is not split
  EXPECT_EQ(q.merges.size(), 8u);
}

TEST(DecodePlanTest, PlanDecode_SplitsNoContext_ForOneCta) {
  const Planned p = Plan({5000, 3, 0}, {0, 20}, 1);
  EXPECT_FALSE(p.plan.combine);
  EXPECT_EQ(p.size.WorkspaceFloats(128), 0);
  EXPECT_EQ(p.items.size(), 6u);  // 20 heads of one group: two tiles
}

TEST(DecodePlanTest, ChooseDecodeGrid_FitsTheSharedMemoryOfEachDevice) {
  const DecodeDevice h200{132, 228 * 1024, 227 * 1024}, a100{108, 164 * 1024, 163 * 1024},
      l40s{142, 100 * 1024, 99 * 1024};
  for (const DecodeDevice& device : {h200, a100, l40s}) {
    for (const NumberType dtype : {NumberType::kF16, NumberType::kBF16}) {
      for (const NumberType cache : {dtype, NumberType::kFp8E4M3}) {
        for (const int32_t head_size : {64, 80, 96, 128, 256}) {
          const DecodeGrid grid = ChooseDecodeGrid(device, dtype, cache, head_size);
          const int64_t bytes =
              grid.stages * DecodeStageBytes(dtype, cache, head_size) + DecodeExtraBytes(dtype, head_size);
          EXPECT_GE(grid.stages, 2);
          EXPECT_LE(grid.stages, 4);
          EXPECT_LE(bytes, device.shared_per_block);
          EXPECT_LE(grid.num_ctas / device.num_sms * (bytes + 1024), device.shared_per_sm);
        }
      }
    }
  }
  const DecodeGrid usual = ChooseDecodeGrid(h200, NumberType::kBF16, NumberType::kBF16, 128);
  EXPECT_EQ(usual.num_ctas, 264);
  EXPECT_EQ(usual.stages, 3);
}

}  // namespace
}  // namespace quire::kernels

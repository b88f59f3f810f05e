// Tests the one-shot all-reduce in the emulator. Ranks are threads.
#include "kernels/cuda/collective/one_shot_all_reduce.h"

#include <gtest/gtest.h>

#include "kernels/cuda/one_shot_case.h"

namespace quire::kernels {
namespace {

constexpr NumberType kSumTypes[] = {NumberType::kF32, NumberType::kF16, NumberType::kBF16};

TEST(OneShotAllReduceTest, OneShotAllReduce_SumsInRankOrder_ForAllSizes) {
  for (const NumberType dtype : kSumTypes) {
    for (const int ranks : {1, 2, 3}) {
      for (const bool in_place : {false, true}) {
        EXPECT_EQ(RunOneShot({.dtype = dtype,
                              .ranks = ranks,
                              .counts = {1, 7, 0, 4099, 8, 40009, 2048, 3, 4096, 70001, 255},
                              .in_place = in_place}),
                  "")
            << ranks << " ranks";
      }
    }
  }
}

TEST(OneShotAllReduceTest, Sums_EqualTheSumInRankOrder_InManyShortOperations) {
  std::vector<int64_t> counts;
  for (int i = 0; i < 300; ++i) counts.push_back(1 + i * 7 % 61);
  EXPECT_EQ(RunOneShot({.dtype = NumberType::kBF16, .ranks = 3, .counts = counts}), "");
}

TEST(OneShotAllReduceTest, Sums_EqualTheSumInRankOrder_OnEightRanks) {
  EXPECT_EQ(RunOneShot({.dtype = NumberType::kF16, .ranks = 8, .counts = {5, 3001, 16, 2}}), "");
}

TEST(OneShotAllReduceTest, Sums_EqualTheSumInRankOrder_WhenOneRankIsSlow) {
  for (const auto hold : {Schedule::Hold::kBeforeSending, Schedule::Hold::kBeforeWaiting}) {
    for (int slow = 0; slow < 3; ++slow) {
      EXPECT_EQ(RunOneShot({.ranks = 3, .counts = {700, 5, 700, 700, 13}, .schedule = {hold, slow}}), "") << slow;
    }
  }
}

TEST(OneShotAllReduceTest, Sums_EqualTheSumInRankOrder_WhenOperationNumbersWrapAround) {
  EXPECT_EQ(RunOneShot({.ranks = 3, .counts = {700, 5, 700, 20000, 13}, .first_operation = 0xfffffffe}), "");
}

TEST(OneShotAllReduceRmsNormTest, FusedAllReduceAndNorm_IsBitEqualToTheTwoSeparateOperations) {
  for (const NumberType dtype : kSumTypes) {
    for (const int64_t hidden : {8, 1000, 4096 + 8}) {
      for (const int ranks : {2, 3}) {
        EXPECT_EQ(RunOneShot({.dtype = dtype, .ranks = ranks, .counts = {1, 3, 0, 5, 1}, .hidden = hidden}), "")
            << "hidden " << hidden << ", " << ranks << " ranks";
      }
    }
  }
  EXPECT_EQ(RunOneShot({.ranks = 2, .counts = {33, 67, 2}, .hidden = 24}), "");  // several rows per block
}

TEST(OneShotAllReduceTest, Abort_EndsTheWaitsOfOtherRanks_AndRecordsForWhichRankTheyWaited) {
  OneShotRanks ranks(3, 1024);
  const std::vector<float> before(100, 0.5f);
  std::vector<float> after;
  std::thread host([&] {
    while (!ranks.waits(0) || !ranks.waits(1)) std::this_thread::yield();
    ranks.Abort();
  });
  ranks.Run(1, {}, [&](int, const OneShotGroup& group) {
    if (group.rank == 2) return;  // rank 2 never takes part
    const simt::DeviceBuffer<float> data(before);
    OneShotAllReduce({}, {group, NumberType::kF32, data.data(), data.data(), 100});
    if (group.rank == 0) after.assign(data.span().begin(), data.span().end());
  });
  host.join();
  EXPECT_EQ(after, before);
  for (const int rank : {0, 1}) EXPECT_NE(ranks.Control(rank, 1 + 2), 0u) << "rank " << rank;
}

}  // namespace
}  // namespace quire::kernels

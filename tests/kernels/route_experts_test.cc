// Tests which experts are chosen and in which order rows are computed, on the CPU and on a device.
#include "kernels/route_experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "simt/device_buffer.h"
#include "tests/kernels/op_device.h"
#include "tests/kernels/reference.h"
#include "tests/support/random.h"

namespace quire::kernels {
namespace {

using simt::DeviceBuffer;
using test_case::DeviceName;
using test_case::Devices;
using test_case::OpTest;

struct Routing {
  std::string name;
  int64_t experts, per_token;
  RouterScore score = RouterScore::kSoftmax;
  bool renormalize = false, corrected = false;
  int64_t groups = 1, groups_per_token = 1;
  float scale = 1;
  float tolerance = 0;
  bool scaled = false;  // true: each expert has a factor of its own
};

std::vector<Routing> Routings() {
  const std::vector<Routing> routings = {
      {"softmax", 8, 2},
      {"renormalised", 60, 4, RouterScore::kSoftmax, true},
      {"of chosen", 37, 5, RouterScore::kSoftmaxOfChosen},
      {"all", 3, 3, RouterScore::kSoftmax, true},
      {"one", 1, 1},
      {"sigmoid", 33, 32, RouterScore::kSigmoid, false, false, 1, 1, 2.5f},
      {"groups", 64, 6, RouterScore::kSigmoid, true, true, 8, 3, 1.5f},
      {"groups of two", 12, 2, RouterScore::kSigmoid, true, true, 6, 1},
      {"groups of a softmax", 20, 4, RouterScore::kSoftmax, true, false, 4, 2},
      {"sparse mixer", 16, 2, RouterScore::kSparseMixer, false, false, 1, 1, 1, 0.5f},
      {"sparse mixer of many", 70, 4, RouterScore::kSparseMixer, false, false, 1, 1, 1.5f, 0.9f},
      {"many", 1024, 8, RouterScore::kSoftmax, true},
      {"scaled", 40, 5, RouterScore::kSoftmax, true, false, 1, 1, 2, 0, true},
      {"sparse mixer, scaled", 16, 2, RouterScore::kSparseMixer, false, false, 1, 1, 1, 0.5f, true},
  };
  return routings;
}

/// Routes rows of logits whose stride is larger than their length, and compares with the reference.
template <class Stream>
void ExpectRoutesLikeReference(const Stream& stream, const Routing& r, const std::vector<float>& logits,
                               const std::vector<float>& bias) {
  const int64_t stride = r.experts + 3, tokens = static_cast<int64_t>(logits.size()) / stride;
  const DeviceBuffer<float> in(logits), correction(bias);
  DeviceBuffer<int32_t> experts(std::vector<int32_t>(static_cast<size_t>(tokens * r.per_token), -1));
  DeviceBuffer<float> weights(std::vector<float>(static_cast<size_t>(tokens * r.per_token), -1.0f));
  RouteExperts(stream, {.logits = in.data(),
                        .logits_stride = stride,
                        .correction = r.corrected ? correction.data() : nullptr,
                        .experts = experts.data(),
                        .weights = weights.data(),
                        .num_tokens = tokens,
                        .num_experts = r.experts,
                        .experts_per_token = r.per_token,
                        .score = r.score,
                        .tolerance = r.tolerance,
                        .renormalize = r.renormalize,
                        .scale = r.scale,
                        .num_groups = r.groups,
                        .groups_per_token = r.groups_per_token,
                        .expert_scales = r.scaled ? correction.data() : nullptr});
  for (int64_t t = 0; t < tokens; ++t) {
    const auto row = logits.begin() + t * stride;
    const auto want = reference::RouteExperts(
        {row, row + r.experts}, r.corrected ? std::vector<double>(bias.begin(), bias.end()) : std::vector<double>(),
        r.score, r.tolerance, r.per_token, r.renormalize, r.scale, r.groups, r.groups_per_token);
    for (int64_t j = 0; j < r.per_token; ++j) {
      const int32_t expert = want[static_cast<size_t>(j)].first;
      const double of_expert = r.scaled ? bias[static_cast<size_t>(expert)] : 1;
      const double weight = want[static_cast<size_t>(j)].second * of_expert;
      const int64_t at = t * r.per_token + j;
      EXPECT_EQ(experts[at], expert) << r.name << ": token " << t << ", choice " << j;
      EXPECT_NEAR(weights[at], weight, 2e-6 * std::max(1.0, std::abs(weight))) << r.name << ": token " << t;
    }
  }
}

template <class Stream>
void ExpectRoutings(const Stream& stream) {
  for (const Routing& r : Routings()) {
    test::Random random(static_cast<uint64_t>(r.experts));
    std::vector<float> logits = random.Floats(5 * (r.experts + 3));
    for (float& logit : logits) logit *= 4;
    ExpectRoutesLikeReference(stream, r, logits, random.Floats(r.experts));
  }
}

/// Expects that the lower number is chosen first among equal scores, and among equal groups.
template <class Stream>
void ExpectTiesToGoToTheLowerNumber(const Stream& stream) {
  ExpectRoutesLikeReference(stream, {"ties", 6, 3}, {1, 5, 1, 5, 5, 1, 0, 0, 0}, {});
  ExpectRoutesLikeReference(stream, {"all equal", 40, 4, RouterScore::kSigmoid}, std::vector<float>(43, -0.25f), {});
  ExpectRoutesLikeReference(stream, {"equal groups", 8, 3, RouterScore::kSigmoid, true, false, 4, 2},
                            {1, 2, 0, 3, 2, 1, 1, 2, 0, 0, 0}, {});
}

/// Expects that the experts of a token are different and exist, even if the token's logits are NaN.
template <class Stream>
void ExpectDifferentExpertsOfNaN(const Stream& stream) {
  const int64_t experts = 9, per_token = 4;
  const DeviceBuffer<float> logits(std::vector<float>(experts, __builtin_nanf("")));
  DeviceBuffer<int32_t> chosen(std::vector<int32_t>(per_token, -1));
  DeviceBuffer<float> weights{std::vector<float>(per_token)};
  RouteExperts(stream, {.logits = logits.data(),
                        .logits_stride = experts,
                        .correction = nullptr,
                        .experts = chosen.data(),
                        .weights = weights.data(),
                        .num_tokens = 1,
                        .num_experts = experts,
                        .experts_per_token = per_token});
  std::vector<int32_t> sorted(chosen.data(), chosen.data() + per_token);
  std::ranges::sort(sorted);
  EXPECT_EQ(std::ranges::adjacent_find(sorted), sorted.end());
  EXPECT_GE(sorted.front(), 0);
  EXPECT_LT(sorted.back(), experts);
}

/// Expects that the pairs of an expert follow each other in their order, that experts without pairs have empty ranges,
/// and that pairs of experts on other ranks have no row.
template <class Stream>
void ExpectGroups(const Stream& stream, int64_t pairs, int64_t experts, int64_t first, int64_t held) {
  test::Random random(static_cast<uint64_t>(pairs + experts));
  std::vector<int32_t> of_pair;
  for (int64_t i = 0; i < pairs; ++i) of_pair.push_back(static_cast<int32_t>(random.Below((experts + 1) / 2) * 2));
  const DeviceBuffer<int32_t> in(of_pair);
  const auto made = [](int64_t count) { return std::vector<int32_t>(static_cast<size_t>(count), -2); };
  DeviceBuffer<int32_t> start(made(held + 1)), pair_of_row(made(pairs)), row_of_pair(made(pairs));
  GroupByExpert(stream, {in.data(), pairs, held, start.data(), pair_of_row.data(), row_of_pair.data(), first});
  int32_t row = 0;
  for (int32_t e = 0; e < held; ++e) {
    ASSERT_EQ(start[e], row) << "expert " << first + e;
    for (int32_t pair = 0; pair < pairs; ++pair) {
      if (of_pair[static_cast<size_t>(pair)] != first + e) continue;
      ASSERT_EQ(pair_of_row[row], pair);
      ASSERT_EQ(row_of_pair[pair], row);
      ++row;
    }
  }
  EXPECT_EQ(start[held], row);
  for (int32_t pair = 0; pair < pairs; ++pair) {
    const int64_t expert = of_pair[static_cast<size_t>(pair)];
    if (expert < first || expert >= first + held) {
      ASSERT_EQ(row_of_pair[pair], -1);
    }
  }
}

template <class Device>
class RouteExpertsTest : public OpTest<Device> {};
TYPED_TEST_SUITE(RouteExpertsTest, Devices, DeviceName);

TYPED_TEST(RouteExpertsTest, RouteExperts_EqualsReference_ForAllRoutings) { ExpectRoutings(this->device_.stream); }

TYPED_TEST(RouteExpertsTest, RouteExperts_ChoosesTheLowerNumber_WhenScoresTie) {
  ExpectTiesToGoToTheLowerNumber(this->device_.stream);
}

TYPED_TEST(RouteExpertsTest, RouteExperts_ChoosesDifferentExperts_WhenLogitsAreNaN) {
  ExpectDifferentExpertsOfNaN(this->device_.stream);
}

template <class Device>
class GroupByExpertTest : public OpTest<Device> {};
TYPED_TEST_SUITE(GroupByExpertTest, Devices, DeviceName);

TYPED_TEST(GroupByExpertTest, GroupByExpert_OrdersPairsByExpert) {
  for (const auto& [pairs, experts] : {std::pair{0, 4}, {1, 1}, {7, 3}, {600, 60}, {300, 256}}) {
    ExpectGroups(this->device_.stream, pairs, experts, 0, experts);
  }
}

TYPED_TEST(GroupByExpertTest, GroupByExpert_LeavesOutPairs_OfExpertsOnOtherRanks) {
  for (const auto& [first, held] : {std::pair{0, 7}, {5, 20}, {33, 27}, {59, 1}, {17, 0}, {0, 0}, {60, 0}}) {
    ExpectGroups(this->device_.stream, 600, 60, first, held);
  }
}

TEST(GroupByMostExpertsTest, GroupByExpert_OrdersPairs_ForTheLargestNumberOfExperts) {
  ExpectGroups(CpuStream(2), 1000, kMostExperts, 0, kMostExperts);
}

}  // namespace
}  // namespace quire::kernels

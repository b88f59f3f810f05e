#include "coordinator/api/access/key_quotas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

constexpr int kMaxRunning = 8;

class KeyQuotasTest : public testing::Test {
 protected:
  void Limit(const std::string& name, Topology::KeyLimits limits) { limits_[name] = limits; }
  KeyQuotas Make() const { return {limits_, kMaxRunning}; }

  static int StatusOf(const std::optional<HttpResponse>& refusal) { return refusal ? refusal->status : 200; }
  /// Returns the value of the header Retry-After in seconds; -1 without this header.
  static int64_t RetryAfter(const std::optional<HttpResponse>& refusal) {
    if (!refusal) return -1;
    for (const auto& [name, value] : refusal->headers) {
      if (name == "Retry-After") return std::stoll(value);
    }
    return -1;
  }
  /// Returns the HTTP status of a call with one choice, this long after the start of the quotas.
  int StatusAfter(KeyQuotas& quotas, const std::string& client, milliseconds after) const {
    return StatusOf(quotas.Refuse(client, 1, begin_ + after));
  }

  // This time is read before any token bucket exists, because a bucket gains no tokens for the time before its
  // creation.
  const KeyQuotas::Clock::time_point begin_ = KeyQuotas::Clock::now();

 private:
  std::map<std::string, Topology::KeyLimits> limits_;
};

TEST_F(KeyQuotasTest, Client_IsNeitherRefusedNorMetered_WithoutLimits) {
  Limit("alice", {.max_queued_reqs = 0});
  KeyQuotas quotas = Make();
  const KeyQuotas::Place place(quotas, "bob", 1'000'000);
  EXPECT_FALSE(quotas.Refuse("bob", 1'000'000, begin_));
  EXPECT_EQ(quotas.Meter("bob"), nullptr);
  EXPECT_EQ(quotas.EngineLimits("bob"), ClientLimits{});
}

TEST_F(KeyQuotasTest, Choices_AreRefusedWith429_BeyondRunningPlusQueued) {
  Limit("alice", {.max_running_seqs = 2, .max_queued_reqs = 3});
  KeyQuotas quotas = Make();
  const KeyQuotas::Place four(quotas, "alice", 4);
  EXPECT_FALSE(quotas.Refuse("alice", 1, begin_));
  const auto refusal = quotas.Refuse("alice", 2, begin_);
  EXPECT_EQ(StatusOf(refusal), 429);
  EXPECT_EQ(RetryAfter(refusal), 1);
  EXPECT_THAT(refusal->body, HasSubstr("max_queued_reqs of this API key, 3 beside 2 that may run"));
  EXPECT_FALSE(quotas.Refuse("bob", 2, begin_)) << "one client's choices are not another's";
}

TEST_F(KeyQuotasTest, RunningLimitOfTheServer_Applies_WhenTheKeyHasNoLimit) {
  Limit("alice", {.max_queued_reqs = 0});
  KeyQuotas quotas = Make();
  EXPECT_FALSE(quotas.Refuse("alice", kMaxRunning, begin_));
  EXPECT_EQ(StatusOf(quotas.Refuse("alice", kMaxRunning + 1, begin_)), 400);
}

TEST_F(KeyQuotasTest, Choices_AreRefusedWith400AndNoRetryAfter_WhenTheyNeverFit) {
  Limit("alice", {.max_running_seqs = 2, .max_queued_reqs = 3});
  KeyQuotas quotas = Make();
  EXPECT_FALSE(quotas.Refuse("alice", 5, begin_));
  const auto refusal = quotas.Refuse("alice", 6, begin_);
  EXPECT_EQ(StatusOf(refusal), 400);
  EXPECT_EQ(RetryAfter(refusal), -1);
  EXPECT_THAT(refusal->body, HasSubstr("6 choices are more than max_queued_reqs of this API key, 3, beside 2"));
}

TEST_F(KeyQuotasTest, Places_AreReleased_AndClientsWithoutPlacesAreForgotten) {
  Limit("default", {.max_running_seqs = 1, .max_queued_reqs = 1});
  KeyQuotas quotas = Make();
  {
    const KeyQuotas::Place alice(quotas, "alice", 1);
    {
      const KeyQuotas::Place more(quotas, "alice", 1), bob(quotas, "bob", 2);
      EXPECT_EQ(quotas.num_pending_clients(), 2u);
      EXPECT_EQ(StatusOf(quotas.Refuse("alice", 1, begin_)), 429);
    }
    EXPECT_EQ(quotas.num_pending_clients(), 1u);
    EXPECT_FALSE(quotas.Refuse("alice", 1, begin_));
    EXPECT_EQ(StatusOf(quotas.Refuse("alice", 2, begin_)), 429);
  }
  EXPECT_EQ(quotas.num_pending_clients(), 0u);
  EXPECT_FALSE(quotas.Refuse("alice", 2, begin_));
}

TEST_F(KeyQuotasTest, TokensOfAMinute_MayBeUsedInAMoment_AndReturnEvenly) {
  Limit("alice", {.tokens_per_minute = 600});  // 10 tokens a second
  KeyQuotas quotas = Make();
  const auto taken = quotas.Meter("alice");
  *taken += 599;
  EXPECT_EQ(StatusAfter(quotas, "alice", seconds(0)), 200) << "one is left";
  *taken += 1;
  const auto refusal = quotas.Refuse("alice", 1, begin_);
  EXPECT_EQ(StatusOf(refusal), 429);
  EXPECT_EQ(RetryAfter(refusal), 1);
  EXPECT_THAT(refusal->body, HasSubstr("tokens_per_minute of this API key, 600, are used up; try again in 1 s"));
  EXPECT_EQ(StatusAfter(quotas, "alice", milliseconds(100)), 200);
  *taken += 30;  // one token was left in the bucket
  EXPECT_EQ(StatusAfter(quotas, "alice", milliseconds(2900)), 429);
  EXPECT_EQ(StatusAfter(quotas, "alice", milliseconds(3100)), 200);
}

TEST_F(KeyQuotasTest, RetryAfter_IsTheTimeUntilATokenIsAvailable) {
  Limit("alice", {.tokens_per_minute = 60});
  KeyQuotas quotas = Make();
  *quotas.Meter("alice") += 100;  // uses 40 tokens too many, which a running call may do
  const int64_t wait = RetryAfter(quotas.Refuse("alice", 1, begin_));
  EXPECT_EQ(wait, 41);
  EXPECT_EQ(StatusAfter(quotas, "alice", seconds(wait - 1)), 429);
  EXPECT_EQ(StatusAfter(quotas, "alice", seconds(wait)), 200);
}

TEST_F(KeyQuotasTest, TokenBucket_HoldsAtMostOneMinutesTokens) {
  Limit("alice", {.tokens_per_minute = 60});
  KeyQuotas quotas = Make();
  const auto taken = quotas.Meter("alice");
  EXPECT_EQ(StatusAfter(quotas, "alice", std::chrono::hours(10)), 200);
  *taken += 60;
  EXPECT_EQ(StatusAfter(quotas, "alice", std::chrono::hours(10)), 429);
}

TEST_F(KeyQuotasTest, TokenCounter_IsSharedByAllCallsOfAClient) {
  Limit("default", {.tokens_per_minute = 60});
  KeyQuotas quotas = Make();
  *quotas.Meter("alice") += 40;
  *quotas.Meter("alice") += 40;  // uses 20 tokens too many; no delay of this process lasts long enough to earn as many
  EXPECT_EQ(StatusAfter(quotas, "alice", seconds(0)), 429);
  EXPECT_EQ(StatusAfter(quotas, "bob", seconds(0)), 200) << "each under default has a minute's tokens of its own";
}

TEST_F(KeyQuotasTest, LimitsOfAKey_ReplaceAllDefaultLimits) {
  Limit("default", {.max_running_seqs = 1, .max_queued_reqs = 0, .tokens_per_minute = 60, .max_blocks = 5});
  Limit("alice", {.max_running_seqs = 4});
  KeyQuotas quotas = Make();
  EXPECT_EQ(quotas.EngineLimits("alice"), (ClientLimits{4, 0}));
  EXPECT_EQ(quotas.EngineLimits("bob"), (ClientLimits{1, 5}));
  EXPECT_FALSE(quotas.Refuse("alice", 100, begin_));
  EXPECT_EQ(StatusOf(quotas.Refuse("bob", 2, begin_)), 400);
}

TEST(KeyQuotasBodyTest, TokensOfBody_EstimatesTokensFromBytes) {
  EXPECT_EQ(KeyQuotas::TokensOfBody(0), 1);
  EXPECT_EQ(KeyQuotas::TokensOfBody(4000), 1001);
}

}  // namespace
}  // namespace quire

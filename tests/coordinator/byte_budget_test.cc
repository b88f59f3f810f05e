#include "coordinator/http/byte_budget.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace quire {
namespace {

using Verdict = ByteBudget::Verdict;

TEST(ByteBudgetTest, Resize_DistinguishesSizesThatFitLaterFromSizesThatNeverFit) {
  ByteBudget budget({.in_all = 100, .per_client = 60});
  ByteBudget::Lease alice = budget.For("alice"), more = budget.For("alice"), bob = budget.For("bob");
  EXPECT_EQ(alice.Resize(61), Verdict::kNever);
  EXPECT_EQ(alice.Resize(50), Verdict::kTaken);
  EXPECT_EQ(more.Resize(11), Verdict::kNotNow) << "the client's own part is full";
  EXPECT_EQ(more.Resize(10), Verdict::kTaken);
  EXPECT_EQ(bob.Resize(41), Verdict::kNotNow) << "others hold the rest";
  EXPECT_EQ(bob.Resize(40), Verdict::kTaken);
  EXPECT_EQ(budget.taken(), 100);
  EXPECT_EQ(alice.Resize(10), Verdict::kTaken);
  EXPECT_EQ(bob.Resize(60), Verdict::kTaken);
  EXPECT_EQ(budget.taken(), 80);
}

TEST(ByteBudgetTest, Admit_LeavesRoomForNewClients_HoweverManyClientsHoldTheirShare) {
  ByteBudget budget({.in_all = 1024, .per_client = 512});
  std::vector<ByteBudget::Lease> leases;
  for (int client = 0; client < 8; ++client) {
    const int64_t before = budget.taken();
    do {
      leases.push_back(budget.For(std::to_string(client)));
    } while (leases.back().Admit(1) == Verdict::kTaken);
    EXPECT_EQ(budget.taken() - before, (1024 - before) / 2) << "half of what the others leave, client " << client;
  }
  EXPECT_EQ(leases.back().Admit(1), Verdict::kNotNow);
  EXPECT_EQ(leases.back().Resize(4), Verdict::kTaken) << "an answer that grows may have what is left";
  EXPECT_EQ(leases.back().Admit(4), Verdict::kTaken) << "what is held stays";
  ByteBudget::Lease newcomer = budget.For("new");
  EXPECT_EQ(newcomer.Admit(513), Verdict::kNever);
  EXPECT_EQ(newcomer.Admit(1), Verdict::kNotNow) << "it would be as much as is left";
}

TEST(ByteBudgetTest, Admit_GivesAClientItsWholeLimit_WhenItIsAlone) {
  for (const int64_t per_client : {300, 600, 900, 1200}) {
    ByteBudget budget({.in_all = 1200, .per_client = per_client});
    ByteBudget::Lease alone = budget.For("alice");
    EXPECT_EQ(alone.Admit(per_client), Verdict::kTaken) << per_client;
    EXPECT_EQ(alone.Admit(10), Verdict::kTaken) << "less always fits";
  }
  ByteBudget budget({.in_all = 1200, .per_client = 600});
  ByteBudget::Lease nobody = budget.For(""), more = budget.For("");
  EXPECT_EQ(nobody.Admit(1000), Verdict::kTaken) << "clients without a name share all of it";
  EXPECT_EQ(more.Admit(200), Verdict::kTaken);
}

TEST(ByteBudgetTest, Lease_KeepsItsBytes_WhenAResizeIsRefused) {
  ByteBudget budget({.in_all = 100, .per_client = 60});
  ByteBudget::Lease lease = budget.For("alice");
  ASSERT_EQ(lease.Resize(20), Verdict::kTaken);
  EXPECT_EQ(lease.Resize(1000), Verdict::kNever);
  EXPECT_EQ(lease.bytes(), 20);
  EXPECT_EQ(budget.taken(), 20);
}

TEST(ByteBudgetTest, ClientsWithoutAName_ShareTheWholeBudget) {
  ByteBudget budget({.in_all = 100, .per_client = 60});
  ByteBudget::Lease lease = budget.For("");
  EXPECT_EQ(lease.Resize(100), Verdict::kTaken);
  EXPECT_EQ(lease.Resize(101), Verdict::kNever);
  EXPECT_EQ(budget.MostFor(""), 100);
  EXPECT_EQ(budget.MostFor("alice"), 60);
}

TEST(ByteBudgetTest, BytesOfALease_AreCountedAndReturnedOnce_WhenTheLeaseIsMoved) {
  ByteBudget budget({.in_all = 100, .per_client = 100});
  {
    ByteBudget::Lease first = budget.For("alice");
    ASSERT_EQ(first.Resize(30), Verdict::kTaken);
    ByteBudget::Lease second = std::move(first);
    EXPECT_EQ(second.bytes(), 30);
    ByteBudget::Lease third = budget.For("bob");
    ASSERT_EQ(third.Resize(40), Verdict::kTaken);
    third = std::move(second);
    EXPECT_EQ(budget.taken(), 30) << "what it held before is given back";
  }
  EXPECT_EQ(budget.taken(), 0);
  EXPECT_EQ(budget.num_clients(), 0u) << "nothing is remembered of clients that hold nothing";
}

TEST(ByteBudgetTest, Budget_NeverExceedsItsLimits_UnderRandomLeases) {
  ByteBudget budget({.in_all = 1000, .per_client = 400});
  std::mt19937 random(7);
  std::vector<std::pair<int, ByteBudget::Lease>> leases;
  int64_t refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    if (leases.size() < 40 && random() % 3 == 0) {
      const int client = static_cast<int>(random() % 4);
      leases.emplace_back(client, budget.For(client == 0 ? "" : std::to_string(client)));
    } else if (!leases.empty() && random() % 5 == 0) {
      leases.erase(leases.begin() + static_cast<long>(random() % leases.size()));
    } else if (!leases.empty()) {
      refused +=
          leases[random() % leases.size()].second.Resize(static_cast<int64_t>(random() % 200)) != Verdict::kTaken;
    }
    int64_t in_all = 0;
    std::vector<int64_t> of(4);
    for (const auto& [client, lease] : leases) {
      in_all += lease.bytes();
      of[static_cast<size_t>(client)] += lease.bytes();
    }
    ASSERT_EQ(in_all, budget.taken());
    ASSERT_LE(in_all, 1000);
    for (size_t client = 1; client < of.size(); ++client) ASSERT_LE(of[client], 400);
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace quire

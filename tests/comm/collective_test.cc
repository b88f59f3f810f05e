#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <thread>

#include "comm/collective/shared_memory.h"
#include "tests/comm/mixed_operations.h"
#include "tests/support/random.h"
#include "tests/support/thread_collectives.h"

namespace quire {
namespace {

/// Runs the body on ranks that wait as where each has a processor, then on ranks that sleep while they wait.
void OnRanks(int size, const std::function<void(Collective&)>& body) {
  for (const int ranks_of_host : {1, kCrowd}) {
    auto ranks = MakeThreadCollectives(size, ranks_of_host);
    std::vector<std::thread> threads;
    for (auto& rank : ranks) threads.emplace_back([&] { body(*rank); });
    for (auto& thread : threads) thread.join();
  }
}

float Value(Rank rank, size_t i) { return 0.1f * static_cast<float>(rank + 1) + 1e-3f * static_cast<float>(i % 97); }
float Before(size_t i) { return 0.3f * static_cast<float>(i % 11); }

TEST(CollectiveTest, AllReduceAdd_SumsInRankOrder_ForEverySize) {
  for (const int size : {1, 2, 3, 4, 7}) {
    OnRanks(size, [&](Collective& c) {
      for (const size_t count : {size_t{1}, size_t{577}, size_t{65536}, size_t{65537}, size_t{200000}}) {
        std::vector<float> part(count), total(count);
        for (size_t i = 0; i < count; ++i) part[i] = Value(c.rank(), i), total[i] = Before(i);
        c.AllReduceAdd(part, total);
        for (size_t i = 0; i < count; ++i) {
          float sum = Value(0, i);
          for (Rank r = 1; r < size; ++r) sum += Value(r, i);
          ASSERT_EQ(total[i], Before(i) + sum) << "element " << i << " of " << count << " on rank " << c.rank();
        }
      }
    });
  }
}

TEST(CollectiveTest, AllGather_AcceptsUnevenAndEmptyParts) {
  OnRanks(3, [](Collective& c) {
    for (const size_t unit : {size_t{1}, size_t{1000}, size_t{400000}}) {
      const std::vector<size_t> counts = {2 * unit, 0, unit};
      std::vector<std::byte> in(counts[static_cast<size_t>(c.rank())], static_cast<std::byte>(c.rank() + 1)),
          out(3 * unit);
      c.AllGather(in, counts, out);
      for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(std::to_integer<int>(out[i]), i < 2 * unit ? 1 : 3);
    }
  });
}

TEST(CollectiveTest, AllToAll_DeliversToEveryRankItsPart) {
  for (const int ranks : {1, 2, 3}) OnRanks(ranks, test::ExpectAllToAllDelivers);
}

TEST(CollectiveTest, ManySmallOperations_OfDifferentKinds_DoNotMixUpTheirData) {
  OnRanks(4, [](Collective& c) { test::ExpectOperationsDoNotMixUp(c, 3000); });
}

TEST(CollectiveTest, Abort_EndsTheWaitsOfOtherRanks) {
  for (const int ranks_of_host : {1, kCrowd}) {
    auto ranks = MakeThreadCollectives(3, ranks_of_host);
    std::vector<float> a(10), b(10);
    std::thread waiting([&] { EXPECT_THROW(ranks[0]->AllReduceAdd(a, a), CollectiveAborted); });
    std::thread also_waiting([&] { EXPECT_THROW(ranks[1]->AllReduceAdd(b, b), CollectiveAborted); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ranks[2]->Abort();
    waiting.join();
    also_waiting.join();
  }
}

TEST(CollectiveTest, NamedSharedMemory_CannotBeCreatedTwice_AndIsGoneAfterUnlink) {
  const std::string name = "/quire.test." + std::to_string(::getpid());
  auto created = CreateArenaMemory(name, 2);
  EXPECT_ANY_THROW(CreateArenaMemory(name, 2));
  auto opened = OpenArenaMemory(name, 2);
  UnlinkArena(name);
  EXPECT_ANY_THROW(OpenArenaMemory(name, 2));
  SharedMemoryCollective a(SharedArena(created.get(), 2), 0, created, 2), b(SharedArena(opened.get(), 2), 1, opened, 2);
  std::vector<float> x = {1}, y = {2};
  std::thread other([&] { b.AllReduceAdd(y, y); });
  a.AllReduceAdd(x, x);
  other.join();
  EXPECT_EQ(x[0], 4);
  EXPECT_EQ(y[0], 5);
}

TEST(SharedStageLinkTest, Messages_ArriveInOrder_WhenTheyAreLongerThanTheRing) {
  const GroupCut cut{{1.0}, {1, 1}};
  auto ranks = MakeThreadPeers(cut);
  SharedStageLink &first = *ranks[1].link, &last = *ranks[0].link;
  ASSERT_EQ(first.stage(), 0);
  ASSERT_TRUE(last.is_last());
  std::vector<std::byte> sent(3 * StageArena::kRingBytes + 17);
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 7 % 251);
  std::vector<std::byte> got(sent.size()), back(5);
  std::thread other([&] {
    for (const size_t cut_at : {size_t{100}, sent.size()}) last.Receive(0, std::span(got).first(cut_at));
    last.Send(0, std::span(sent).first(5));
  });
  first.Send(1, std::span(sent).first(100));
  first.Send(1, sent);
  first.Receive(1, back);
  other.join();
  EXPECT_EQ(got, sent);
  EXPECT_EQ(back, std::vector(sent.begin(), sent.begin() + 5));
}

TEST(SharedStageLinkTest, Waits_End_WhenAnotherRankHasEnded) {
  auto ranks = MakeThreadPeers({{1.0}, {1, 1}});
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ranks[0].link->Abort();
  });
  std::vector<std::byte> bytes(1);
  EXPECT_THROW(ranks[1].link->Receive(1, bytes), CollectiveAborted);
  other.join();
}

}  // namespace
}  // namespace quire

// Tests collectives over several hosts. This program simulates the hosts: each host has its own memory, and its ranks
// are threads.
#include "comm/collective/hierarchical.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "tests/comm/mixed_operations.h"

namespace quire {
namespace {

/// The data that the hosts' leaders have sent each other, by operation and host.
struct Wire {
  std::mutex mutex;
  std::map<uint64_t, std::map<int, std::vector<std::byte>>> sent;
};

class ThreadExchange : public LeaderExchange {
 public:
  ThreadExchange(Wire& wire, int host, int num_hosts) : wire_(wire), host_(host), num_hosts_(num_hosts) {}

  void Begin(std::byte* all, const std::vector<int>& sizes, const std::vector<int>& offsets) override {
    all_ = all, offsets_ = offsets, sizes_ = sizes;
    const auto h = static_cast<size_t>(host_);
    const std::lock_guard lock(wire_.mutex);
    wire_.sent[operation_][host_].assign(all + offsets[h], all + offsets[h] + sizes[h]);
  }
  bool Done() override {
    const std::lock_guard lock(wire_.mutex);
    const auto& sent = wire_.sent[operation_];
    if (static_cast<int>(sent.size()) < num_hosts_) return false;
    for (const auto& [host, bytes] : sent) {
      EXPECT_EQ(static_cast<int>(bytes.size()), sizes_[static_cast<size_t>(host)]);
      if (host != host_ && !bytes.empty())
        std::memcpy(all_ + offsets_[static_cast<size_t>(host)], bytes.data(), bytes.size());
    }
    ++operation_;
    return true;
  }

 private:
  Wire& wire_;
  int host_, num_hosts_;
  uint64_t operation_ = 0;
  std::byte* all_ = nullptr;
  std::vector<int> sizes_, offsets_;
};

void OnRanks(const std::vector<int>& hosts, const std::function<void(Collective&)>& body) {
  const HostLayout layout(hosts);
  Wire wire;
  std::vector<std::shared_ptr<void>> memory;
  const size_t bytes = (HostArena::BytesFor(layout.size()) + 63) / 64 * 64;
  for (int h = 0; h < layout.num_hosts(); ++h) {
    memory.emplace_back(std::aligned_alloc(64, bytes), std::free);
    std::memset(memory.back().get(), 0, bytes);
  }
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < layout.size(); ++rank) {
    threads.emplace_back([&, rank] {
      const int host = layout.host_of(rank);
      const auto& mine = memory[static_cast<size_t>(host)];
      std::unique_ptr<LeaderExchange> exchange;
      if (layout.ranks_of(host).front() == rank)
        exchange = std::make_unique<ThreadExchange>(wire, host, layout.num_hosts());
      HierarchicalCollective collective(HostArena(mine.get(), layout.size()), layout, rank, std::move(exchange), mine);
      body(collective);
    });
  }
  for (auto& thread : threads) thread.join();
}

const std::vector<std::vector<int>> kLayouts = {{0}, {0, 0}, {0, 1}, {0, 0, 1}, {0, 1, 0}, {0, 1, 2}, {0, 0, 1, 1, 2}};

/// Returns a rank's value at index i. The sum of these values over the ranks depends on the order of addition.
float HostValue(Rank rank, size_t i) {
  return 0.1f * static_cast<float>(rank + 1) + 1e-3f * static_cast<float>(i % 97);
}
float HostBefore(size_t i) { return 0.3f * static_cast<float>(i % 11); }

TEST(HierarchicalTest, AllReduceAdd_SumsInRankOrder_OnAnyLayoutOfHosts) {
  for (const auto& hosts : kLayouts) {
    OnRanks(hosts, [&](Collective& c) {
      for (const size_t count : {size_t{1}, size_t{577}, size_t{65536}, size_t{65537}, size_t{150000}}) {
        std::vector<float> part(count), total(count);
        for (size_t i = 0; i < count; ++i) part[i] = HostValue(c.rank(), i), total[i] = HostBefore(i);
        c.AllReduceAdd(part, total);
        for (size_t i = 0; i < count; ++i) {
          float sum = HostValue(0, i);
          for (Rank r = 1; r < c.size(); ++r) sum += HostValue(r, i);
          ASSERT_EQ(total[i], HostBefore(i) + sum) << "element " << i << " of " << count << " on rank " << c.rank();
        }
      }
    });
  }
}

TEST(HierarchicalTest, AllGather_KeepsRankOrder_WithUnevenAndEmptyParts) {
  for (const auto& hosts : kLayouts) {
    OnRanks(hosts, [](Collective& c) {
      for (const size_t unit : {size_t{1}, size_t{1000}, size_t{300000}}) {
        std::vector<size_t> counts;
        std::vector<std::byte> expected;
        for (Rank r = 0; r < c.size(); ++r) {
          counts.push_back(static_cast<size_t>(r + 2) % 3 * unit);
          expected.insert(expected.end(), counts.back(), static_cast<std::byte>(r + 1));
        }
        const std::vector<std::byte> in(counts[static_cast<size_t>(c.rank())], static_cast<std::byte>(c.rank() + 1));
        std::vector<std::byte> out(expected.size());
        c.AllGather(in, counts, out);
        ASSERT_EQ(out, expected) << "on rank " << c.rank();
      }
    });
  }
}

TEST(HierarchicalTest, AllToAll_DeliversToEveryRankItsPart) {
  for (const auto& hosts : kLayouts) OnRanks(hosts, test::ExpectAllToAllDelivers);
}

TEST(HierarchicalTest, ManyOperations_OfDifferentKinds_DoNotMixUpTheirData) {
  OnRanks({0, 1, 0, 1}, [](Collective& c) { test::ExpectOperationsDoNotMixUp(c, 1000); });
}

TEST(HierarchicalTest, Abort_EndsTheWaitsOfItsHost) {
  OnRanks({0, 0, 0, 1}, [](Collective& c) {
    std::vector<float> data(10);
    // The ranks of host 1 leave. The leader of host 0 waits for them, and the other ranks of host 0 wait for the
    // leader.
    if (c.rank() == 3) return;
    if (c.rank() == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      c.Abort();
    }
    EXPECT_THROW(c.AllReduceAdd(data, data), CollectiveAborted);
  });
}

}  // namespace
}  // namespace quire

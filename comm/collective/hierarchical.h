#pragma once

#include <memory>
#include <vector>

#include "comm/collective/collective.h"
#include "comm/collective/host_arena.h"

namespace quire {

/// How the leaders of the hosts give each other what their hosts' ranks contribute. One leader calls, from one thread.
class LeaderExchange {
 public:
  virtual ~LeaderExchange() = default;
  /// `all` has room for every host: host h's bytes are sizes[h] from offsets[h] on, and this host's are there. Begins
  /// to fill in the others'.
  virtual void Begin(std::byte* all, const std::vector<int>& sizes, const std::vector<int>& offsets) = 0;
  /// True when all are there. Never blocks.
  virtual bool Done() = 0;
};

/// Collectives over several hosts: every rank writes its part into its host's arena, the first rank of each host
/// exchanges what is there with those of the others, and every rank reads the whole. A part crosses the network once
/// for each other host, not once for each other rank; sums go in rank order, so their bits are those of one host.
class HierarchicalCollective : public Collective {
 public:
  /// `owner` keeps the arena's memory alive. `exchange` is for the host's first rank; null for others.
  HierarchicalCollective(HostArena arena, HostLayout layout, Rank rank, std::unique_ptr<LeaderExchange> exchange,
                         std::shared_ptr<void> owner);

  Rank rank() const override { return rank_; }
  int size() const override { return layout_.size(); }
  void AllReduceAdd(std::span<const float> part, std::span<float> total) override;
  void AllGather(std::span<const std::byte> in, std::span<const size_t> counts, std::span<std::byte> out) override;
  void Abort() override { arena_.abort_word().store(1, std::memory_order_release); }

 private:
  /// Where the parts of sizes_ bytes lie.
  void LayOut();
  /// This rank's part goes in, everybody's is in the returned buffer at offsets_[rank]. Good until the call after next.
  const std::byte* Exchange(std::span<const std::byte> part);
  template <class Condition>
  void Await(Condition condition) const;

  HostArena arena_;
  HostLayout layout_;
  Rank rank_;
  std::unique_ptr<LeaderExchange> exchange_;
  std::shared_ptr<void> owner_;
  uint64_t operation_ = 0;
  std::vector<size_t> sizes_, offsets_;  // of each rank's part
  std::vector<int> host_sizes_, host_offsets_;
  int spins_;  // pauses before a waiting rank gives its core away
};

}  // namespace quire

#pragma once

#include <memory>
#include <vector>

#include "comm/collective/collective.h"
#include "comm/collective/host_arena.h"

namespace quire {

/// Exchanges the hosts' parts between their leaders. One rank of each host is its leader. Only the leader calls this
/// class, from one thread.
class LeaderExchange {
 public:
  virtual ~LeaderExchange() = default;
  /// Begins to fill in the bytes of the other hosts. `all` has room for every host: sizes[h] bytes at offsets[h] for
  /// host h. The bytes of this host are already in it.
  virtual void Begin(std::byte* all, const std::vector<int>& sizes, const std::vector<int>& offsets) = 0;
  /// True when the bytes of all hosts have arrived. The function never blocks.
  virtual bool Done() = 0;
};

/// Collectives over several hosts. Every rank writes its part into its host's shared memory; the first rank of each
/// host exchanges these parts with the other hosts; every rank then reads all parts. A part crosses the network once
/// for each other host, not once for each other rank. Sums go in rank order, so they have the same bits as on one host.
class HierarchicalCollective : public Collective {
 public:
  /// `owner` keeps the arena's memory alive. `exchange`: for the first rank of each host; null for other ranks.
  HierarchicalCollective(HostArena arena, HostLayout layout, Rank rank, std::unique_ptr<LeaderExchange> exchange,
                         std::shared_ptr<void> owner);

  Rank rank() const override { return rank_; }
  int size() const override { return layout_.size(); }
  void AllReduceAdd(std::span<const float> part, std::span<float> total) override;
  void AllGather(std::span<const std::byte> in, std::span<const size_t> counts, std::span<std::byte> out) override;
  void Abort() override { arena_.abort_word().store(1, std::memory_order_release); }

 private:
  /// Computes from sizes_ the offset of every rank's part, and the offset and size of every host's parts.
  void LayOut();
  /// Publishes this rank's part. Returns a buffer with the parts of all ranks; rank r's part is at offsets_[r]. The
  /// buffer is valid until the call after the next one.
  const std::byte* Exchange(std::span<const std::byte> part);
  template <class Condition>
  void Await(Condition condition) const;

  HostArena arena_;
  HostLayout layout_;
  Rank rank_;
  std::unique_ptr<LeaderExchange> exchange_;
  std::shared_ptr<void> owner_;
  uint64_t operation_ = 0;
  std::vector<size_t> sizes_, offsets_;  // size and offset of each rank's part, in bytes
  std::vector<int> host_sizes_, host_offsets_;
  int spins_;  // pauses before a waiting rank yields its core
};

}  // namespace quire

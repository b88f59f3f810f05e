#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/base/types.h"

namespace quire {

/// Which rank is on which host. In a buffer, the parts of one host's ranks lie side by side.
class HostLayout {
 public:
  /// host_of_rank[r] is the host of rank r. Hosts are numbered from 0 in the order of their first ranks.
  explicit HostLayout(const std::vector<int>& host_of_rank);

  int size() const { return static_cast<int>(host_of_rank_.size()); }
  int num_hosts() const { return static_cast<int>(ranks_of_host_.size()); }
  int host_of(Rank rank) const { return host_of_rank_[static_cast<size_t>(rank)]; }
  const std::vector<Rank>& ranks_of(int host) const { return ranks_of_host_[static_cast<size_t>(host)]; }

 private:
  std::vector<int> host_of_rank_;
  std::vector<std::vector<Rank>> ranks_of_host_;
};

/// Memory that the ranks of one host share: a flag for each rank, a flag with which the leader says that all parts have
/// arrived, an abort flag, and two buffers. Each buffer has room for a piece of every rank of the group. Each flag
/// fills a cache line.
class HostArena {
 public:
  static constexpr size_t kPieceBytes = 256 << 10;  // bytes of one rank's piece; longer messages go in several pieces

  struct alignas(64) Flag {
    std::atomic<uint64_t> operations;
  };

  static size_t BytesFor(int group_size) {
    return sizeof(Flag) * (static_cast<size_t>(group_size) + 2) + 2 * kPieceBytes * static_cast<size_t>(group_size);
  }

  /// `memory`: BytesFor(group_size) zeroed bytes, aligned to 64 bytes.
  HostArena(void* memory, int group_size) : memory_(static_cast<std::byte*>(memory)), group_size_(group_size) {}

  std::atomic<uint64_t>& published(Rank rank) const { return flag(static_cast<size_t>(rank)); }
  std::atomic<uint64_t>& complete() const { return flag(static_cast<size_t>(group_size_)); }
  std::atomic<uint64_t>& abort_word() const { return flag(static_cast<size_t>(group_size_) + 1); }
  std::byte* buffer(uint64_t operation) const {
    const auto size = static_cast<size_t>(group_size_);
    return memory_ + sizeof(Flag) * (size + 2) + operation % 2 * kPieceBytes * size;
  }

 private:
  std::atomic<uint64_t>& flag(size_t index) const { return reinterpret_cast<Flag*>(memory_)[index].operations; }

  std::byte* memory_;
  int group_size_;
};

}  // namespace quire

#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "comm/collective/collective.h"
#include "comm/collective/spin_wait.h"

namespace quire {

/// Memory that all ranks of a group share: for each rank a flag (a cache line) and two data buffers; for all ranks an
/// abort flag.
class SharedArena {
 public:
  static constexpr size_t kBufferBytes = 256 << 10;  // bytes of one buffer; longer messages go in several pieces

  struct alignas(64) Flag {
    AwaitedCount published;  // number of operations for which this rank has written its part
  };

  static size_t BytesFor(int size) {
    return sizeof(Flag) * static_cast<size_t>(size + 1) + 2 * kBufferBytes * static_cast<size_t>(size);
  }

  /// `memory`: BytesFor(size) zeroed bytes, aligned to 64 bytes, which must outlive the arena.
  SharedArena(void* memory, int size) : memory_(static_cast<std::byte*>(memory)), size_(size) {}

  Flag& flag(Rank rank) const { return *reinterpret_cast<Flag*>(memory_ + sizeof(Flag) * static_cast<size_t>(rank)); }
  std::atomic<uint64_t>& abort_word() const { return flag(size_).published.count; }
  std::byte* buffer(Rank rank, uint64_t operation) const {
    const size_t index = 2 * static_cast<size_t>(rank) + operation % 2;
    return memory_ + sizeof(Flag) * static_cast<size_t>(size_ + 1) + index * kBufferBytes;
  }
  int size() const { return size_; }

 private:
  std::byte* memory_;
  int size_;
};

/// Collectives through shared memory. In each operation every rank publishes its part, waits for the other ranks'
/// flags, and reads their parts. The two buffers of a rank alternate. A rank that publishes operation k + 1 has
/// finished reading operation k, so writing operation k + 2 cannot overwrite data that is still read.
class SharedMemoryCollective : public Collective {
 public:
  /// `owner` keeps the arena's memory alive. `ranks_of_host`: the ranks that compute on this host, of other groups,
  /// too.
  SharedMemoryCollective(SharedArena arena, Rank rank, std::shared_ptr<void> owner, int ranks_of_host);

  Rank rank() const override { return rank_; }
  int size() const override { return arena_.size(); }
  void AllReduceAdd(std::span<const float> part, std::span<float> total) override;
  void AllGather(std::span<const std::byte> in, std::span<const size_t> counts, std::span<std::byte> out) override;
  void AllToAll(std::span<const std::byte> in, std::span<const size_t> sizes, std::span<std::byte> out) override;
  void Abort() override { arena_.abort_word().store(1, std::memory_order_release); }

 private:
  void Publish();
  void Await(Rank other);

  SharedArena arena_;
  Rank rank_;
  std::shared_ptr<void> owner_;
  uint64_t operation_ = 0;
  bool crowded_;  // the host has fewer processors than ranks
};

/// Creates and maps a POSIX shared memory object of BytesFor(size) bytes, with mode 0600. Throws Error when `name` is
/// in use. Call UnlinkArena, which removes the name, once every rank has mapped the object, so that the object
/// disappears with its users.
std::shared_ptr<void> CreateArenaMemory(const std::string& name, int size);
std::shared_ptr<void> OpenArenaMemory(const std::string& name, int size);
/// CreateSharedMemory does what CreateArenaMemory does, for any number of bytes; OpenSharedMemory does what
/// OpenArenaMemory does.
std::shared_ptr<void> CreateSharedMemory(const std::string& name, size_t bytes);
std::shared_ptr<void> OpenSharedMemory(const std::string& name, size_t bytes);
void UnlinkArena(const std::string& name);

}  // namespace quire

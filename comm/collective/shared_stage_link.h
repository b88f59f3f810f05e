#pragma once

#include <atomic>
#include <memory>

#include "comm/collective/stage_link.h"

namespace quire {

/// Memory that the ranks with the same index within their stages share: a ring of bytes from each stage to the next, a
/// ring from the last stage to each other stage, and an abort flag.
class StageArena {
 public:
  static constexpr size_t kRingBytes = 256 << 10;  // bytes of one ring; longer messages pass through it in pieces

  struct Ring {
    alignas(64) std::atomic<uint64_t> written;  // bytes since the start
    alignas(64) std::atomic<uint64_t> taken;
    alignas(64) std::byte bytes[kRingBytes];
  };
  struct alignas(64) Flag {
    std::atomic<uint64_t> set;
  };

  static size_t BytesFor(int num_stages) {
    return sizeof(Flag) + 2 * sizeof(Ring) * static_cast<size_t>(num_stages - 1);
  }

  /// `memory`: BytesFor(num_stages) zeroed bytes, aligned to 64 bytes, which must outlive the arena.
  StageArena(void* memory, int num_stages) : memory_(static_cast<std::byte*>(memory)), num_stages_(num_stages) {}

  /// Returns the ring from stage `from` to stage `to`: the next stage, or any other stage when `from` is the last one.
  Ring& ring(int from, int to) const;
  std::atomic<uint64_t>& abort_word() const { return reinterpret_cast<Flag*>(memory_)->set; }
  int num_stages() const { return num_stages_; }

 private:
  std::byte* memory_;
  int num_stages_;
};

/// A StageLink within one host, through shared memory. A waiting call throws CollectiveAborted when another rank
/// aborts.
class SharedStageLink final : public StageLink {
 public:
  /// `owner` keeps the arena's memory alive.
  SharedStageLink(StageArena arena, int stage, std::shared_ptr<void> owner);

  int stage() const override { return stage_; }
  int num_stages() const override { return arena_.num_stages(); }
  void Send(int to, std::span<const std::byte> bytes) override;
  bool HasBytes(int from) override;
  void Receive(int from, std::span<std::byte> bytes) override;
  void Abort() { arena_.abort_word().store(1, std::memory_order_release); }

 private:
  StageArena arena_;
  int stage_;
  std::shared_ptr<void> owner_;
};

}  // namespace quire

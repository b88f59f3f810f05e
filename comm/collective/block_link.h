#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/collective/block_runs.h"

namespace quire {

/// The memory of several KV blocks. Both ends of a transfer list the blocks in the same order.
using BlockMemory = std::vector<std::span<std::byte>>;

/// The result of a transfer at either end. `problem` is empty after a success. At the receiver, a success means that
/// all blocks have arrived. At the sender, it means that the sender has passed all blocks to its links.
struct BlockTransferEnd {
  uint64_t ticket = 0;
  int64_t bytes = 0;
  std::string problem;
};

/// KV blocks travel from ranks of one group to ranks of another group: from host memory to host memory over a Channel,
/// in chunks that each have a number and a hash. If both ends have a DeviceCarrier, KV blocks travel from device memory
/// to device memory over a DeviceLink, and one chunk from each sending rank announces this. A transfer either completes
/// or fails as a whole. A transfer fails when a chunk is missing or broken, when nothing moves for kLinkPatience, or
/// when the transfer is not complete after kTransferPatience. Over a DeviceLink, kDevicePatience replaces
/// kLinkPatience, because the DeviceLink must connect first. Several transfers may run at the same time. Each end
/// belongs to one thread, which calls Poll.
inline constexpr auto kLinkPatience = std::chrono::seconds(5), kDevicePatience = std::chrono::seconds(15),
                      kTransferPatience = std::chrono::seconds(60);

/// The most chunks that one Poll of a receiver takes, and that one Poll of a sender sends on each stream. The calling
/// thread has other work, too.
inline constexpr int kChunksAtOnce = 64;

/// The `problem` of a transfer that Stop ended.
inline constexpr const char* kCalledOff = "called off";

/// Aborts unless the runs lie within every one of the blocks.
void CheckRuns(const BlockRuns& runs, const BlockMemory& blocks);

/// A transfer sends certain runs of each block, one after another. Returns the memory of bytes [offset, offset +
/// bytes), counted along these runs, in order.
std::vector<std::span<std::byte>> PartsOf(const BlockRuns& runs, std::span<std::byte> block, int64_t offset,
                                          int64_t bytes);

}  // namespace quire

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/collective/block_runs.h"

namespace quire {

/// Memory of KV blocks, in the order in which both ends of a transfer name them.
using BlockMemory = std::vector<std::span<std::byte>>;

/// A transfer's end, on either side. `problem` is empty when everything went over.
struct BlockTransferEnd {
  uint64_t ticket = 0;
  int64_t bytes = 0;
  std::string problem;
};

/// KV blocks from ranks of one group to ranks of another: host memory to host memory over a Channel, in chunks that are
/// numbered and hashed, or, with carriers at both ends, device memory to device memory over a DeviceLink, which a chunk
/// announces. A transfer is whole or it has failed; it fails when a chunk is missing or broken, when nothing of it
/// moves for kLinkPatience (kDevicePatience by a DeviceLink, which is made at the first use), and when it is not over
/// after kTransferPatience. Transfers go on beside each other. Each end belongs to one thread, which calls Poll.
inline constexpr auto kLinkPatience = std::chrono::seconds(5), kDevicePatience = std::chrono::seconds(15),
                      kTransferPatience = std::chrono::seconds(60);

/// What a Poll of either end moves at the most: whoever calls it looks at other things, too.
inline constexpr int kChunksAtOnce = 64;

/// How a transfer ends that somebody called off.
inline constexpr const char* kCalledOff = "called off";

/// Aborts unless the runs lie within every one of the blocks.
void CheckRuns(const BlockRuns& runs, const BlockMemory& blocks);

/// The memory of [offset, offset + bytes) of what goes of a block, in order.
std::vector<std::span<std::byte>> PartsOf(const BlockRuns& runs, std::span<std::byte> block, int64_t offset,
                                          int64_t bytes);

}  // namespace quire

#pragma once

#include <cstdint>

#include "worker/cpu/kv_cache.h"
#include "worker/engine/engine_sizes.h"
#include "worker/model/shard.h"

namespace quire {

/// The first bytes of the guesser's part of a block.
struct GuesserBlock {
  int32_t num_read;  // number of leading tokens of the block that the guesser has read
  int32_t kept;      // with prediction layers: 1 + offset of the token whose hidden state is stored; 0: none
};
inline constexpr int64_t kGuesserHeadBytes = 64;  // bytes before the numbers in a block's part
/// Parts of a block begin at multiples of 64 bytes.
inline int64_t RoundUpInBlock(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/// Returns the shape of the guesser's keys and values.
KvShape GuesserShape(const EngineSizes& sizes);
/// Returns the shard of a rank that has the whole guesser.
RankShard GuesserShard(const EngineSizes& sizes);
/// Returns how many spare blocks the guesser needs for one sequence: for the block of the sequence's last token, and
/// for all draft tokens but the last. In the worst case the sequence's last token fills its block.
int GuesserSpareBlocks(const EngineSizes& sizes);
/// Returns for how many sequences one call makes drafts at most.
int MostGuessedSequences(const EngineSizes& sizes);

}  // namespace quire

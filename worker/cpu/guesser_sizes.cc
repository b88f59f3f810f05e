#include "worker/cpu/guesser_sizes.h"

#include <algorithm>

namespace quire {

namespace {

constexpr int kMostSequences = 64;  // the most sequences for which one call makes drafts

}  // namespace

KvShape GuesserShape(const EngineSizes& sizes) {
  return {sizes.draft.files->spec(), GuesserShard(sizes), KvTypeOf(sizes.compute.kv_cache_dtype), sizes.block_size};
}

RankShard GuesserShard(const EngineSizes& sizes) { return PlanShards(sizes.draft.files->spec(), {1.0}).front(); }

int GuesserSpareBlocks(const EngineSizes& sizes) {
  return (sizes.block_size - 1 + sizes.draft.num_tokens - 1) / sizes.block_size + 1;
}

int MostGuessedSequences(const EngineSizes& sizes) {
  return std::min({sizes.draft.max_sequences, sizes.max_running, kMostSequences});
}

}  // namespace quire

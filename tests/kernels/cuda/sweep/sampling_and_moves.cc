// Sweeps sampling, which is compared with the CPU's sampling, and copies of blocks, which are compared byte for byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/block_copy.h"
#include "kernels/cuda/elementwise/pack_runs.h"
#include "kernels/cuda/sampling_case.h"
#include "kernels/cuda/sweep/sweep.h"
#include "simt/device_buffer.h"
#include "simt/expect_error.h"

namespace quire::kernels {
namespace {

using simt::DeviceBuffer;

TEST(SamplingSweep, SampleRows_DrawsTheSameTokensAsTheCpu_OverRandomBatches) {
  int near_misses = 0, rows = 0;
  Sweep("drawing", 40, [&](test::Random& random, uint64_t seed) -> std::string {
    const int64_t vocab = AnyLength(random, 1, 5000);
    std::vector<SamplingRow> batch;
    for (int64_t r = random.Between(1, 6); r > 0; --r) batch.push_back(RandomRow(random, vocab));
    const simt::WithOptions options({.seed = seed, .switch_chance = seed % 7 == 0 ? 0.02 : 0.0});
    const auto shards = static_cast<int>(random.Below(4));  // 0: whole rows
    const Drawn drawn = shards == 0 ? DrawWhole(batch)
                                    : DrawSharded(batch, RandomShards(random, vocab, shards),
                                                  OneOf(random, {0, 1, 7, kMaxShardCandidates}));
    for (size_t r = 0; r < batch.size(); ++r, ++rows) {
      const std::string difference = Difference(batch[r], drawn.tokens[r], near_misses);
      if (difference.empty()) continue;
      return "vocabulary " + std::to_string(vocab) + " in " + std::to_string(shards) + " shards, row " +
             std::to_string(r) + ": " + difference;
    }
    return "";
  });
  EXPECT_LE(near_misses, 2 + rows / 250);
}

/// Returns `count` random bytes, for a pool whose blocks must have different bytes.
std::vector<std::byte> RandomBytes(test::Random& random, int64_t count) {
  std::vector<std::byte> bytes(static_cast<size_t>(count));
  for (std::byte& b : bytes) b = static_cast<std::byte>(random.Below(256));
  return bytes;
}

/// Returns the ids of all blocks in random order.
std::vector<int32_t> Shuffled(test::Random& random, int64_t count) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  std::iota(ids.begin(), ids.end(), 0);
  for (size_t i = ids.size(); i > 1; --i)
    std::swap(ids[i - 1], ids[static_cast<size_t>(random.Below(static_cast<int64_t>(i)))]);
  return ids;
}

/// Returns runs of a block in ascending order, with or without gaps, packed one after another.
std::vector<PackedRun> RandomRuns(test::Random& random, int64_t block_bytes) {
  std::vector<PackedRun> runs;
  int64_t packed = 0;
  for (int64_t at = 0; at < block_bytes;) {
    at += random.Below(2) * 16 * AnyLength(random, 0, 200);
    const int64_t bytes = std::min<int64_t>(16 * AnyLength(random, 1, 6000), block_bytes - at);
    if (bytes <= 0) break;
    runs.push_back({at, bytes, packed});
    at += bytes, packed += bytes;
  }
  if (runs.empty()) runs.push_back({0, block_bytes, 0});
  return runs;
}

TEST(PackRunsSweep, PackRuns_PutsEveryByteInItsPlace_OverRandomRuns) {
  Sweep("blocks packed and unpacked", 100, [](test::Random& random, uint64_t) -> std::string {
    const int64_t count = random.Between(1, 6), bytes = 16 * AnyLength(random, 1, 12'000);
    const std::vector<PackedRun> runs = RandomRuns(random, bytes);
    const int64_t packed_bytes = runs.back().packed_at + runs.back().bytes;
    std::vector<int32_t> chosen = Shuffled(random, count);
    chosen.resize(static_cast<size_t>(random.Between(1, count)));
    const auto moved = std::ssize(chosen);
    const std::vector<std::byte> before = RandomBytes(random, count * bytes);
    const std::vector<std::byte> sent = RandomBytes(random, moved * packed_bytes);
    const DeviceBuffer<std::byte> pool(before), packed(moved * packed_bytes), arrived(sent);
    std::vector<std::byte*> addresses;
    for (const int32_t id : chosen) addresses.push_back(pool.data() + id * bytes);
    const DeviceBuffer<std::byte*> blocks(addresses);
    const DeviceBuffer<PackedRun> list(runs);
    const auto move = [&](const DeviceBuffer<std::byte>& to, bool unpacks) {
      PackRuns(CudaStream{}, {blocks.data(), list.data(), to.data(), moved, std::ssize(runs), packed_bytes, unpacks});
    };
    move(packed, false);
    move(arrived, true);
    std::vector<std::byte> after = before;
    for (int64_t b = 0; b < moved; ++b) {
      for (const PackedRun& run : runs) {
        const int64_t in_pool = chosen[static_cast<size_t>(b)] * bytes + run.at, at = b * packed_bytes + run.packed_at;
        if (std::memcmp(packed.data() + at, before.data() + in_pool, static_cast<size_t>(run.bytes)) != 0)
          return "a run of " + std::to_string(run.bytes) + " bytes is not packed as it was";
        std::copy_n(sent.begin() + at, run.bytes, after.begin() + in_pool);
      }
    }
    const bool same = std::equal(after.begin(), after.end(), pool.data());
    return same ? "" : std::to_string(runs.size()) + " runs of blocks of " + std::to_string(bytes) + " bytes, unpacked";
  });
}

TEST(BlockCopySweep, BlockCopy_CopiesWholeBlocks_OverRandomPairs) {
  Sweep("blocks copied", 100, [](test::Random& random, uint64_t) -> std::string {
    const int64_t count = random.Between(2, 9), bytes = 16 * AnyLength(random, 1, 12'000);
    const std::vector<int32_t> order = Shuffled(random, count);
    const int64_t copies = random.Between(0, count - 1);
    std::vector<int32_t> pairs;  // the first `copies` ids are targets, each once; the other ids are sources
    for (int64_t i = 0; i < copies; ++i) {
      pairs.push_back(order[static_cast<size_t>(random.Between(copies, count - 1))]);
      pairs.push_back(order[static_cast<size_t>(i)]);
    }
    const std::vector<std::byte> before = RandomBytes(random, count * bytes);
    const DeviceBuffer<std::byte> pool(before);
    const DeviceBuffer<int32_t> list(pairs);
    BlockCopy(CudaStream{}, {pool.data(), pool.data(), bytes, list.data(), copies});
    std::vector<std::byte> after = before;
    for (size_t i = 0; i < pairs.size(); i += 2)
      std::copy_n(before.begin() + pairs[i] * bytes, bytes, after.begin() + pairs[i + 1] * bytes);
    const bool same = std::equal(after.begin(), after.end(), pool.data());
    return same ? "" : std::to_string(copies) + " blocks of " + std::to_string(bytes) + " bytes";
  });
}

}  // namespace
}  // namespace quire::kernels

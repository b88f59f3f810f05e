#include "kernels/cuda/sweep/random_steps.h"

#include <algorithm>

#include "kernels/cuda/sweep/sweep.h"

namespace quire::kernels {
namespace {

constexpr int64_t kMostPairs = 700'000;  // pairs of a query and a key in a case, with heads of 64

/// Returns chunks with at most `most_pairs` pairs of a query and a key in each head. With `split`, one chunk has a long
/// prefix and enough queries for a whole tile, so that tiles are split.
std::vector<Chunk> RandomChunks(test::Random& random, bool split, int64_t most_pairs) {
  std::vector<Chunk> chunks;
  for (int64_t left = split ? random.Between(1, 2) : random.Between(1, 4); left > 0; --left) {
    const bool behind = split && chunks.empty();
    Chunk chunk{.queries = behind ? AnyLength(random, 40, 300) : AnyLength(random, 1, 300), .context = 0};
    int32_t prefix = behind ? AnyLength(random, 1100, 2000) : AnyLength(random, 0, 1500);
    while (int64_t{chunk.queries} * (prefix + chunk.queries) > most_pairs && chunk.queries > 1)
      chunk.queries -= (chunk.queries + 7) / 8;
    while (int64_t{chunk.queries} * (prefix + chunk.queries) > most_pairs) prefix /= 2;
    chunk.context = prefix + chunk.queries;
    if (!behind && random.Below(8) == 0) chunk.context = 0;  // pads the step
    most_pairs -= int64_t{chunk.queries} * chunk.context;
    chunks.insert(random.Below(2) == 0 ? chunks.begin() : chunks.end(), chunk);
  }
  return chunks;
}

/// Returns contexts with at most `most_keys` keys together; some may be empty.
std::vector<int32_t> RandomContexts(test::Random& random, int64_t most_keys) {
  std::vector<int32_t> contexts;
  for (int64_t left = random.Between(1, 8); left > 0; --left) {
    const auto most = static_cast<int32_t>(std::clamp<int64_t>(most_keys, 1, 3000));
    contexts.push_back(random.Below(8) == 0 ? 0 : AnyLength(random, 1, most));
    most_keys -= contexts.back();
  }
  return contexts;
}

}  // namespace

PrefillShape RandomPrefill(test::Random& random) {
  PrefillShape s{.dtype = OneOf(random, {NumberType::kBF16, NumberType::kBF16, NumberType::kF16, NumberType::kF16,
                                         NumberType::kF32})};
  s.fp8_cache = random.Below(3) == 0;
  const bool split = s.dtype != NumberType::kF32 && random.Below(4) > 0;
  s.head_size = OneOf(random, {64, 64, 64, 80, 96, 128, 128, 256, split ? 64 : 512});
  s.block_size = OneOf(random, {8, 16, 32, 64});
  s.head_start = HeadsOfAShare(random, split || s.head_size > 128 ? 5 : 9);
  const auto kv_heads = static_cast<int32_t>(s.head_start.size()) - 1;
  if (split) s.split.num_ctas = kv_heads * static_cast<int32_t>(random.Between(4, 30));
  s.chunks = RandomChunks(random, split, kMostPairs * 64 / (int64_t{s.head_size} * s.head_start.back()));
  s.window = random.Below(3) == 0 ? AnyLength(random, 1, 2500) : 0;
  s.soft_cap = random.Below(5) == 0 ? 1.5f : 0.0f;
  s.alibi = random.Below(3) == 0;
  s.sinks = random.Below(5) == 0;
  s.first_sink = static_cast<float>(random.Below(9));
  s.scale = OneOf(random, {0.05f, 0.3f, 1.0f});
  s.resident_table = random.Below(2) == 0;
  s.in_groups = random.Below(2) == 0 && s.dtype != NumberType::kF32 && (s.head_size == 64 || s.head_size == 128);
  return s;
}

DecodeShape RandomDecode(test::Random& random, bool planned) {
  DecodeShape s{.dtype = OneOf(random, {NumberType::kBF16, NumberType::kF16})};
  if (!planned && random.Below(3) == 0) s.dtype = NumberType::kF32;
  s.fp8_cache = random.Below(3) == 0;
  s.head_size = OneOf(random, {64, 64, 64, 80, 96, 128, 128, 256});
  s.block_size = OneOf(random, {8, 16, 32, 64});
  const std::vector<int32_t> start = HeadsOfAShare(random, s.head_size <= 128 ? 40 : 20);
  s.kv_head_of.clear();
  for (int32_t g = 0; g + 1 < std::ssize(start); ++g) {
    for (int32_t h = start[static_cast<size_t>(g)]; h < start[static_cast<size_t>(g) + 1]; ++h)
      s.kv_head_of.push_back(g);
  }
  s.context_len = RandomContexts(random, 60'000 * 64 / (int64_t{s.head_size} * start.back()));
  s.window = random.Below(3) == 0 ? AnyLength(random, 1, 2500) : 0;
  s.soft_cap = random.Below(5) == 0 ? 1.5f : 0.0f;
  s.alibi = random.Below(5) == 0;
  s.sinks = random.Below(5) == 0;
  s.resident_table = !planned && random.Below(2) == 0;
  return s;
}

}  // namespace quire::kernels

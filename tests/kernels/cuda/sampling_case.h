#pragma once

#include <map>
#include <string>
#include <vector>

#include "kernels/cuda/sampling/sampling_shards.h"
#include "kernels/sampling.h"
#include "tests/support/random.h"

namespace quire::kernels {

/// One row, and what the device is told of it in other words.
struct SamplingRow {
  std::vector<float> logits;
  SamplingParams params;
  DrawKey key{1, 0, 0};
  Penalties penalties;
  std::map<int32_t, int32_t> seen;  // times generated; 0: in the prompt only
  std::vector<std::pair<int32_t, float>> bias;
  std::vector<int32_t> banned;
  int num_logprobs = -1;
  bool draws = true;

  bool has_penalties() const;
  /// The raw row (NaN as -infinity) after bias, bans and penalties.
  std::vector<float> Edited() const;
  std::vector<float> Raw() const;
};

/// Every feature with some chance; distributions peaked, flat, full of ties, with infinite and missing logits.
SamplingRow RandomRow(test::Random& random, int64_t vocab);

/// Sizes of shards that add up to `vocab`; some may be empty.
std::vector<int64_t> RandomShards(test::Random& random, int64_t vocab, int shards);

/// A batch on the emulator. Whatever an op must not read is NaN or garbage, and rows that do not draw come between.
struct Drawn {
  std::vector<DrawnToken> tokens;  // per row
  int in_shard = 0, whole_row = 0;
};
Drawn DrawWhole(const std::vector<SamplingRow>& batch);
/// With the vocabulary cut into shards of these sizes. Two ranks' results must be the same.
Drawn DrawSharded(const std::vector<SamplingRow>& batch, const std::vector<int64_t>& shards, int num_candidates);

/// Compares with kernels/cpu/sampling.cc: empty if it agrees. A token may differ where the uniform number or the cut of
/// top-p falls within 1e-6 of a boundary between tokens: the device's exponentials are fp32. `near_misses` counts
/// those.
std::string Difference(const SamplingRow& row, const DrawnToken& drawn, int& near_misses);

}  // namespace quire::kernels

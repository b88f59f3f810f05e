#pragma once

#include <map>
#include <string>
#include <vector>

#include "kernels/cuda/sampling/sampling_shards.h"
#include "kernels/sampling.h"
#include "tests/support/random.h"

namespace quire::kernels {

/// Describes one row of logits and how it is sampled.
struct SamplingRow {
  std::vector<float> logits;
  SamplingParams params;
  DrawKey key{1, 0, 0};
  Penalties penalties;
  std::map<int32_t, int32_t> seen;  // token id -> how often the token was generated; 0: it is only in the prompt
  std::vector<std::pair<int32_t, float>> bias;
  std::vector<int32_t> banned;
  int num_logprobs = -1;
  bool draws = true;

  bool has_penalties() const;
  /// Returns the raw row (NaN as -infinity) after bias, bans and penalties.
  std::vector<float> Edited() const;
  std::vector<float> Raw() const;
};

/// Makes a row that uses each feature with some probability. The logits are peaked, flat or full of ties; some are
/// infinite or NaN.
SamplingRow RandomRow(test::Random& random, int64_t vocab);

/// Makes sizes of shards that add up to `vocab`; some may be 0.
std::vector<int64_t> RandomShards(test::Random& random, int64_t vocab, int shards);

/// Holds the results of a batch from the emulator. All memory that an operation must not read is NaN or garbage.
/// Between the rows that sample lie rows that do not.
struct Drawn {
  std::vector<DrawnToken> tokens;  // one per row
  int in_shard = 0, whole_row = 0;
};
Drawn DrawWhole(const std::vector<SamplingRow>& batch);
/// Samples with a vocabulary that is divided into shards of these sizes. Each shard passes its `num_candidates` best
/// tokens on. The results of two ranks must be the same.
Drawn DrawSharded(const std::vector<SamplingRow>& batch, const std::vector<int64_t>& shards, int num_candidates);

/// Describes how the result differs from that of kernels/cpu/sampling.cc; empty if both agree. A token may differ where
/// the uniform number or the limit of top-p is within 1e-6 of a boundary between tokens, because the GPU's exponentials
/// are fp32. `near_misses` counts such tokens.
std::string Difference(const SamplingRow& row, const DrawnToken& drawn, int& near_misses);

}  // namespace quire::kernels
